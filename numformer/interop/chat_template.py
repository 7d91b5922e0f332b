"""The template of a conversation: from messages to the text that a chat model continues.

A template is a program in the language Jinja, and it comes with a model, from a stranger. Published
ones use nearly all of the language (macros, namespaces, filters), so a part of it written here
would refuse most, or be wrong without a word. The library jinja2 runs them in its sandbox: a
template sees the messages and the names of special tokens, no attributes that begin with an
underscore, no files and no modules, and changes nothing. Its text has a limit, its time and memory
have none.

Source: https://huggingface.co/docs/transformers/chat_templating, whose functions are these.
"""

import json
import re
from datetime import datetime
from importlib.metadata import version
from itertools import islice

from numformer.interop.published_files import TEMPLATE, TOKENIZER

LONGEST_TEMPLATE, LONGEST_TEXT, PIECES = 2**20, 2**24, 10**6          # characters; parts of a text
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
         "mask_token")
_INSTALL = ("a template of conversations needs jinja2, 3.1.6 or later: pip install "
            "'numformer[chat]'")


class ChatTemplate:
    """The text of a conversation.

    Parameters
    ----------
    source : str
        In the language Jinja.
    names : dict of str to str
        Of special tokens, such as ``{"eos_token": "</s>"}``.

    Raises
    ------
    ImportError
        If jinja2 is not installed.
    ValueError
        If the template is no Jinja, or too long.

    Examples
    --------
    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> template.text([{"role": "user", "content": "Hello"}])
    '<user>Hello'
    """

    def __init__(self, source, names=None):
        if len(source) > LONGEST_TEMPLATE:
            raise ValueError(f"the template of conversations has {len(source)} characters; at most "
                             f"{LONGEST_TEMPLATE} are read.")
        self.names = dict(names or {})
        jinja2, environment = _environment()
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
            raise ValueError("the template of conversations is no Jinja "
                             f"({_line(error)}).") from None
        self._errors = jinja2.TemplateError

    def text(self, messages, answer=True):
        """The text of messages.

        Parameters
        ----------
        messages : list of dict
            Each with ``role``, "system", "user" or "assistant", and ``content``, its text.
        answer : bool
            Whether the text ends where the assistant's answer begins.

        Raises
        ------
        ValueError
            If the template refuses the messages, as many do that do not begin with the user's or
            do not alternate, or does what the sandbox does not allow.
        """
        parts, length = [], 0
        messages = json.loads(json.dumps(messages))   # its own, to the last of them
        try:
            found = self._template.generate(messages=messages, add_generation_prompt=answer,
                                            tools=None, documents=None, **self.names)
            for part in islice(found, PIECES):
                parts.append(part)
                length += len(part)
                if length > LONGEST_TEXT:
                    raise ValueError(f"its text has more than {LONGEST_TEXT} characters")
        except Exception as error:                    # whatever a stranger's program may raise
            kind = "" if isinstance(error, self._errors) else f"{type(error).__name__}, "
            raise ValueError(f"the template of conversations: {kind}{_line(error)}") from None
        return "".join(parts)


def _line(error):
    """What an error says, in one line that is not long."""
    return " ".join(str(error).split())[:200]


def has_template(published):
    """Whether a folder's files hold a template of conversations."""
    return TEMPLATE in published or bool(published.get(TOKENIZER, {}).get("chat_template"))


def chat_template(published, source=None):
    """The template of a folder's files, or None.

    That of chat_template.jinja precedes the one of tokenizer_config.json, as in the published code;
    of several, the one that is called "default" is taken.

    Parameters
    ----------
    published : dict
        As from `read_published`.
    source : str, optional
        Another template, with the names of the folder's special tokens.

    Raises
    ------
    ImportError, ValueError
        As `ChatTemplate`.
    """
    config = published.get(TOKENIZER, {})
    if source is None:
        source = published.get(TEMPLATE, config.get("chat_template"))
    if isinstance(source, list):
        source = next((one.get("template") for one in source if isinstance(one, dict)
                       and one.get("name") == "default"), None)
    if source is None:
        return None
    if not isinstance(source, str):
        raise ValueError("'chat_template' of tokenizer_config.json must be a text, or a list with "
                         "one whose name is 'default'.")
    names = {}
    for facts in (published.get("special_tokens_map.json", {}), config):
        for name in NAMES:
            value = facts.get(name)
            value = value.get("content") if isinstance(value, dict) else value
            if isinstance(value, str):
                names[name] = value
    return ChatTemplate(source, names)


def _environment():
    try:
        import jinja2
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ImportError(_INSTALL) from None
    if tuple(map(int, re.findall(r"\d+", version("jinja2"))[:3])) < (3, 1, 6):
        raise ImportError(_INSTALL)                   # the sandbox of these leaks

    class Generation(Extension):
        """Marks what an assistant has said, for training; here only its text matters."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[loopcontrols, Generation])
    del environment.globals["lipsum"]

    def refuse(message):
        raise jinja2.TemplateError(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return jinja2, environment
