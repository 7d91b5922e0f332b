"""What messages show: control characters escaped, paths quoted, typos with a suggestion."""

import shlex
import sys
import unicodedata

# Surrogates stand for bytes of file names that are no UTF-8.
_ESCAPED = ("Cc", "Cs", "Zl", "Zp")
# Of the category Cf, which holds joiners that scripts and emoji need: these reorder what follows.
_REORDERING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text, keep=""):
    r"""A text with every control character written as an escape.

    A name or a line of a file may hold ESC, carriage returns or characters that reverse the text
    after them: a terminal would obey them.

    Parameters
    ----------
    text : object
        Its str.
    keep : str
        Control characters that stay, such as a newline.

    Returns
    -------
    str

    Examples
    --------
    >>> printable("a\x1b[2Jb\r\n\u202e.txt"), printable("a\nb", keep="\n")
    ('a\\x1b[2Jb\\r\\n\\u202e.txt', 'a\nb')
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(character if character in keep or not _is_control(character)
                   else character.encode("unicode_escape").decode() for character in text)


def _is_control(character):
    return character in _REORDERING or unicodedata.category(character) in _ESCAPED


def shortened(text, most=1000):
    """A text, its middle left out if it is longer than `most` characters.

    Examples
    --------
    >>> shortened("0123456789", most=7)
    '0 ... 9'
    """
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def shell_word(path):
    r"""A path as one word of a shell's command line; nothing is added where nothing is needed.

    Examples
    --------
    >>> print(shell_word("runs/tiny"), shell_word("my run"), shell_word("a\x1bb"))
    runs/tiny 'my run' $'a\x1bb'
    """
    path = str(path)
    if printable(path) == path:
        return shlex.quote(path)
    escaped = path.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(
        "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
        if _is_control(character) else character for character in escaped) + "'"


def closest(word, choices):
    """The choice that a word was probably meant to be; None if none is close.

    Examples
    --------
    >>> closest("--stpes", ["--steps", "--seed"]), closest("x", ["--steps"])
    ('--steps', None)
    """
    from difflib import get_close_matches

    word, choices = str(word)[:100], [str(choice) for choice in choices]
    close = (get_close_matches(word, choices, n=1, cutoff=0.75)
             or [choice for choice in choices if len(word) > 2 and choice.startswith(word)])
    return close[0] if close else None


def did_you_mean(word, choices):
    """For a message, after a word that is none of `choices`: the closest, if one is close.

    Examples
    --------
    >>> "stpes is unknown" + did_you_mean("stpes", ["steps", "seed"]) + "; choose another"
    'stpes is unknown (did you mean steps?); choose another'
    """
    close = closest(word, choices)
    return f" (did you mean {close}?)" if close else ""


def show_text(text, stream):
    """Write text and flush; characters that the stream cannot encode become question marks.

    A terminal would obey control characters of a generated text: it gets escapes for them, and so
    do messages, which `cat` may show later.
    """
    encoding = stream.encoding or "utf-8"
    if stream.isatty() or getattr(stream, "is_for_messages", stream is sys.stderr):
        text = printable(text, keep="\n\t")
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()
