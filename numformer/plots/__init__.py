"""Pictures with matplotlib: each function takes `ax=` and returns it, or the figure of several
panels.

No function opens a window or writes a file. The ground is white. Magnitudes run from white to blue;
signed values are blue below zero and orange above, and orange is also the one accent. Curves differ
by line style and marker, not by colour alone. Text has at least 12 points in a figure 8 inches
wide; labels that would overlap are left out. ``with dark():`` makes pictures for dark screens,
``with slides():`` 16:9 pictures with text of at least 18 points.

Texts may be of any script (`numformer.plots.text`): what the font lacks comes from another one that
is installed, or becomes a mark, which a line below the picture explains. To choose a font, set
``matplotlib.rcParams["font.family"]``, to a list for several scripts.

A page may register pictures of a run (`numformer.plots.pictures`): `PICTURES` has all of them.
"""

import importlib
import pkgutil

from numformer.plots.activation_curves import activation_curves
from numformer.plots.attention.alignment import alignment_map
from numformer.plots.attention.fixed import attention_maps
from numformer.plots.attention.forward_backward import forward_and_backward
from numformer.plots.attention.heads import head_statistics
from numformer.plots.attention.maps import (
    attention_grid, attention_heads, attention_map)
from numformer.plots.attention.mask_panels import mask_panels
from numformer.plots.attention.permutation import permutation_panels
from numformer.plots.attention.query import query_detail
from numformer.plots.attention.tiles import tile_animation, tile_frame, tile_frames, tile_order
from numformer.plots.audit import audit_errors
from numformer.plots.axes import dark, slides
from numformer.plots.captions import image_grid, image_text_similarity
from numformer.plots.costs import attention_costs, cost_treemap
from numformer.plots.detection import boxes_in_images, query_attention
from numformer.plots.forecasts import forecast_fan
from numformer.plots.hidden_units import activation_histograms, dead_unit_bars
from numformer.plots.images import accuracy_by_images, attention_received, shifted_windows
from numformer.plots.in_context import accuracy_bars, accuracy_by_shots, induction_panels
from numformer.plots.diagrams.architecture import architecture_diagram
from numformer.plots.diagrams.computation import computation_graph
from numformer.plots.diagrams.poster import poster
from numformer.plots.meaning.embeddings import embedding_map
from numformer.plots.meaning.patterns import heads_by_pattern
from numformer.plots.models.growth import model_growth
from numformer.plots.models.lstm_cell import lstm_cell_diagram
from numformer.plots.models.recurrent import lstm_gate_maps, unrolled_rnn
from numformer.plots.norms import norm_comparison, norm_cube, results_by_batch_size
from numformer.plots.pictures import PICTURES
from numformer.plots.point_clouds import cloud_orders
from numformer.plots.positions.added import (
    position_biases, position_vectors, similarity_by_distance)
from numformer.plots.positions.learned import learned_positions
from numformer.plots.positions.rotary import rotary_animation, rotary_clocks, rotary_proof
from numformer.plots.positions.waves import position_waves
from numformer.plots.predictions.loss_by_token import tokens_by_loss
from numformer.plots.predictions.temperature import temperature_panels
from numformer.plots.residual_stream import contribution_bars, lens_map, residual_norms
from numformer.plots.scaling.laws import scaling_law_curves
from numformer.plots.scaling.memory import memory_hierarchy
from numformer.plots.scaling.operations import losses_by_operations
from numformer.plots.scaling.positions import losses_by_position
from numformer.plots.scaling.power_laws import power_law_panels
from numformer.plots.scaling.ranks import rank_scaling
from numformer.plots.step_errors import step_error_curve
from numformer.plots.training.breakdown import breakdown_bars
from numformer.plots.training.clipping import clipping_curves
from numformer.plots.training.comparison import gradient_reach_curves, losses_by_tokens
from numformer.plots.training.curves import (
    fact_curve, gradient_flow, gradient_norm_curve, learning_rate_curve, loss_curve,
    update_ratio_curve)
from numformer.plots.training.depth import gradient_ratio_by_depth, losses_by_step
from numformer.plots.training.growth import growth_of_time
from numformer.plots.training.landscape import Plane, loss_contours
from numformer.plots.training.pipeline import pipeline_picture
from numformer.plots.training.slips import slip_costs
from numformer.plots.vision import patch_attention, position_similarity

for _page in pkgutil.walk_packages(__path__, "numformer.plots."):     # they register their pictures
    importlib.import_module(_page.name)
PICTURES = dict(sorted(PICTURES.items()))

__all__ = ["PICTURES", *sorted(name for name, value in globals().items() if callable(value))]
