"""Text corpora: the one that comes with Python, a file, or Tiny Shakespeare from the network."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from numformer.data.world import world_text
from numformer.files import MIB, read_file

DOCUMENTATION = "python-docs"
TINY_SHAKESPEARE = "tinyshakespeare"
WORLD = "world"
WORLD_TALES = 3600                                   # and a ninth of that, held out
_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
MOST = 512 * MIB                                      # of a text: its ids take eight times as much
MOST_OF_A_PIPE = 256 * MIB                            # whose end is unknown
_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


class DataError(Exception):
    """A dataset is missing or malformed; the message says why and what to do."""


class NoSuchFile(DataError):
    """There is no readable file of that name."""


@dataclass(frozen=True)
class Corpus:
    """A text with a name.

    Parameters
    ----------
    name : str
    text : str
    """

    name: str
    text: str

    def __len__(self):
        return len(self.text)

    @property
    def sha256(self):
        """Checksum of the text as UTF-8: a run resumes only with the text that it began with."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def split(self, fraction=0.9):
        """The first part of the text, to train on, and the rest, to validate on.

        Examples
        --------
        >>> Corpus("digits", "0123456789").split()
        ('012345678', '9')
        """
        cut = int(fraction * len(self.text))
        return self.text[:cut], self.text[cut:]


def load_corpus(data=DOCUMENTATION):
    """The corpus of that name, or of that file.

    Parameters
    ----------
    data : str or path
        ``python-docs`` (the documentation of the language, from the standard library),
        ``tinyshakespeare`` (downloaded once, needs the ``data`` extra), ``world`` (tales by rule;
        the held-out ones come last, so that they are the last tenth), or the path of a text file
        in UTF-8, of at most 512 MiB. A pipe such as ``<(zcat text.gz)`` is read to its end, or to
        256 MiB.

    Returns
    -------
    Corpus

    Raises
    ------
    DataError
        If the text is unavailable or empty, or the file is no text, no regular file or too large.

    Examples
    --------
    >>> load_corpus().text[:6].isprintable()
    True
    """
    if data == DOCUMENTATION:
        return Corpus(DOCUMENTATION, _documentation())
    if data == TINY_SHAKESPEARE and not Path(data).exists():
        return Corpus(TINY_SHAKESPEARE, _read(_download()))
    if data == WORLD and not Path(data).exists():
        held_out = world_text(WORLD_TALES // 9, held_out=True)
        return Corpus(WORLD, f"{world_text(WORLD_TALES)}\n\n{held_out}\n")
    return Corpus(Path(data).name, _read(Path(data)))


def _documentation():
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError("this Python comes without its documentation texts (pydoc_data, which "
                        "Pyodide has as its package pydoc-data); give a text file with --data "
                        "PATH, or take tales written by rule: --data world.") from None
    return "\n\n".join(topics[name].strip() for name in sorted(topics))


def _read(path):
    """The text of a file or pipe; DataError if it is none."""
    try:
        pipe = path.is_fifo()
        data = read_file(path, MOST_OF_A_PIPE if pipe else MOST, pipes=True)
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}; "
                         "give a text file with --data PATH.") from None
    except ValueError as error:                       # a device, too large, or no name of a file
        raise DataError(str(error)) from None
    if b"\0" in data:
        raise DataError(f"{path} is a binary file: byte {data.index(0)} is zero; "
                        "give a text file in UTF-8.")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: byte {error.start} is "
                        f"0x{data[error.start]:02x}; convert the file first.") from None
    if not text.strip():
        raise DataError(f"{path} is empty; give a file with text in it.")
    return text


def _download():
    try:
        import pooch
    except ImportError:
        raise DataError("downloading needs the data extra: pip install 'numformer[data]'; "
                        "or give a file with --data PATH.") from None
    pooch.get_logger().setLevel("ERROR")
    folder, name = Path(pooch.os_cache("numformer")), "tinyshakespeare.txt"
    if (folder / name).exists():
        _read(folder / name)                          # pooch would read a device without end
    try:
        return Path(pooch.retrieve(_URL, known_hash=f"sha256:{_SHA256}", fname=name, path=folder))
    except (OSError, ValueError) as error:                            # offline, or another file
        raise DataError(f"{TINY_SHAKESPEARE} cannot be downloaded ({type(error).__name__}); "
                        f"fetch {_URL} on a machine with a network, and give the file with "
                        "--data PATH.") from None
