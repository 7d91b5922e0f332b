"""numformer chat: hold a conversation with a published chat model, a message a line.

    numformer chat run --template "{{ messages[-1].content }}" --tokens 3
"""

import sys

import numpy as np

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.commands.shared.run_arguments import (
    add_run_arguments, add_weights_argument, smaller_weights)
from numformer.commands.shared.sampling import (
    add_sampling_arguments, check_sampling_arguments, sampling)
from numformer.generation import generate
from numformer.interop import chat_template
from numformer.layers.token_step import UnknownPart
from numformer.recipes import TextTask
from numformer.runs import load_run
from numformer.terminal import show_text

DEFAULT_TOKENS, QUIT, LONGEST_LINE = 500, "/quit", 2**20


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--system", default=None, metavar="TEXT", help="instruction before the "
                        "conversation (default: that of the model's template, if it has one)")
    parser.add_argument("--template", default=None, metavar="JINJA", help="template that makes the "
                        "prompt of the messages (default: that of the model's files)")
    parser.add_argument("--tokens", type=int, default=DEFAULT_TOKENS, metavar="N",
                        help=f"most tokens of an answer (default: {DEFAULT_TOKENS})")
    add_sampling_arguments(parser, "greedy")
    add_weights_argument(parser, "how weights are stored while text is generated, as in sample")


@np.errstate(over="ignore", invalid="ignore")         # logits that are not finite are refused
def run(arguments):
    check_sampling_arguments("chat", arguments)
    try:
        check_whole("chat", "--tokens", arguments.tokens)
    except ValueError as error:
        raise UsageError(str(error)) from None
    model, tokenizer, facts, task = load_run(arguments.run, arguments.best)
    template = _template(arguments, facts, task)
    settings = sampling(arguments, facts, model, own=0.0)
    messages = [] if arguments.system is None else [
        {"role": "system", "content": arguments.system}]
    conversation = Conversation(
        model, tokenizer, template, messages, arguments.tokens, settings,
        np.random.default_rng(arguments.seed), smaller_weights(arguments))
    is_asked = sys.stdin.isatty()
    if is_asked:
        show_text(f"Write a message a line; {QUIT} ends the conversation.\n", sys.stderr)
    while True:
        if is_asked:
            show_text("> ", sys.stderr)
        line = sys.stdin.readline(LONGEST_LINE)
        if not line or line.strip() == QUIT:
            break
        if not line.strip():
            continue
        try:
            for text in conversation.answer(line.rstrip("\r\n")):
                if not arguments.json:
                    show_text(text, sys.stdout)
        except UnknownPart as error:
            raise UsageError(f"chat: {error}") from None
        if not arguments.json:
            show_text("\n", sys.stdout)
    if arguments.json:
        print_json({"messages": conversation.messages, "forgotten": conversation.n_forgotten})
    return 0


def _template(arguments, facts, task):
    """The template; UsageError if the run cannot hold a conversation."""
    run = arguments.run
    if not isinstance(task, TextTask):
        raise UsageError(f"{run}: a {facts['model']['kind']} of the task {task.name} holds no "
                         "conversation; use numformer sample --prompt.")
    try:
        template = chat_template(facts.get("published", {}), arguments.template)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{run}: {str(error).rstrip('.')}.") from None
    if template is None:
        raise UsageError(f"{run} has no template of conversations, which a folder of a published "
                         "chat model brings; give one with --template, or continue a text with "
                         "numformer sample --prompt.")
    return template


class Conversation:
    """Messages, and the answers of a model to them.

    Where they no longer fit the context, the oldest are forgotten, but for the system's.

    Parameters
    ----------
    model : Decoder
    tokenizer : Tokenizer
    template : ChatTemplate
    messages : list of dict
        Those at the beginning.
    tokens : int
        The most of an answer.
    settings : tuple
        (temperature, top_k, top_p, end) of `generate`.
    rng : numpy.random.Generator
    weights : str, optional
    """

    def __init__(self, model, tokenizer, template, messages, tokens, settings, rng, weights=None):
        self.model, self.tokenizer, self.template = model, tokenizer, template
        self.messages, self.tokens, self.settings = list(messages), tokens, settings
        self.rng, self.weights, self.n_forgotten = rng, weights, 0

    def answer(self, message):
        """Yield the answer to a message in parts."""
        self.messages.append({"role": "user", "content": message})
        ids, parts = self._ids(), []
        temperature, top_k, top_p, end = self.settings
        chosen = generate(self.model, ids, self.tokens, self.rng, temperature, top_k, top_p,
                          self.weights, end)
        for text in self.tokenizer.decode_stream(chosen, after=ids):
            parts.append(text)
            yield text
        self.messages.append({"role": "assistant", "content": "".join(parts)})

    def _ids(self):
        """The ids of the messages that fit, with room for one token of an answer at least."""
        first = int(self.messages[0]["role"] == "system")
        begin, longest = first, self.model.config.context_length - 1
        while True:
            kept = self.messages[:first] + self.messages[begin:]
            try:
                text = self.template.text(kept)
                ids = self.tokenizer.encode(text)
            except ValueError as error:
                raise UsageError(f"chat: {str(error).rstrip('.')}.") from None
            if 1 <= len(ids) <= longest:
                if begin > first:
                    show_text(f"({begin - first} older messages are forgotten: the context has "
                              f"{longest + 1} tokens)\n", sys.stderr)
                self.n_forgotten += begin - first
                self.messages = kept
                return ids
            begin += 2                                # a message and its answer
            if begin >= len(self.messages):
                raise UsageError(f"chat: the message has {len(ids)} tokens with its template, but "
                                 f"the model reads 1 to {longest}; write a shorter one.")
