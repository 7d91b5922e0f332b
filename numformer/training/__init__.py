"""Batches, schedules, optimizers, the trainer, checkpoints and the folder of a run."""

from numformer.training.batches import Batch, BlockStream, consecutive_blocks
from numformer.training.bert_batches import BertBatch, BertRows, BertStream, consecutive_masked_rows, passage_rows
from numformer.training.checkpoint import CheckpointError, load_checkpoint, save_checkpoint, write_atomically
from numformer.training.counting_trainer import CountingTrainer
from numformer.training.curriculum import Curriculum
from numformer.training.epochs import Epochs
from numformer.training.labelled import LabelledBatch, LabelledStream, accuracy, labelled_batches
from numformer.training.masking import MaskedStream, mask_tokens
from numformer.training.muon import Muon
from numformer.training.noising import corrupt_spans, hide_tokens, infill, permute_sentences
from numformer.training.optimizers import SGD, Adam, AdamW, Optimizer, clip_factor, global_norm
from numformer.training.pairs import NoiseStream, PairBatch, PairStream, consecutive_pairs, pair_batch
from numformer.training.passage_batches import LabelledRows, LabelledTextBatch, PassageStream, TripletBatch, Triplets, consecutive_passages
from numformer.training.run_folder import RunFolder, train
from numformer.training.schedules import SCHEDULES, learning_rate
from numformer.training.trainer import NotFinite, Trainer, mean_loss, part_of
from numformer.training.training_config import OPTIMIZERS, TrainingConfig

__all__ = [
    "Adam", "AdamW", "Batch", "BertBatch", "BertRows", "BertStream", "BlockStream", "CheckpointError", "CountingTrainer", "Curriculum",
    "Epochs", "LabelledBatch", "LabelledRows", "LabelledStream", "LabelledTextBatch", "MaskedStream", "Muon", "NoiseStream",
    "NotFinite", "OPTIMIZERS", "Optimizer", "PairBatch", "PairStream", "PassageStream", "RunFolder", "SCHEDULES", "SGD", "Trainer",
    "TrainingConfig", "TripletBatch", "Triplets", "accuracy", "clip_factor", "consecutive_blocks", "consecutive_masked_rows",
    "consecutive_pairs", "consecutive_passages", "corrupt_spans", "global_norm", "hide_tokens", "infill", "labelled_batches",
    "learning_rate", "load_checkpoint", "mask_tokens", "mean_loss", "pair_batch", "part_of", "passage_rows",
    "permute_sentences", "save_checkpoint", "train", "write_atomically",
]
