"""numformer.terminal: no control character passes, no path breaks a command line."""

import subprocess
import sys

import pytest

from numformer.terminal import closest, did_you_mean, printable, shell_word, shortened


@pytest.mark.parametrize("text, shown", [
    ("plain", "plain"), ("\x1b]0;title\x07", "\\x1b]0;title\\x07"), ("a\rb", "a\\rb"),
    ("\x9b31m", "\\x9b31m"), ("\u202etxt.exe", "\\u202etxt.exe"), ("\x7f", "\\x7f"),
    ("\udce9", "\\udce9"), ("\u2028", "\\u2028"), ("äöü 漢字 👩\u200d🔬", "äöü 漢字 👩\u200d🔬")])
def test_control_characters_are_escaped_and_nothing_else(text, shown):
    assert printable(text) == shown


@pytest.mark.skipif(sys.platform == "win32", reason="words of a POSIX shell")
@pytest.mark.parametrize("path", ["plain", "my run", "it's", "$HOME", "a;b", "-", "ö",
                                  "\x1b[2J", "a'b\n\\c", "\udcff", ""])
def test_a_shell_reads_a_word_back(path):
    found = subprocess.run(["bash", "-c", f"printf %s {shell_word(path)}"], capture_output=True)
    assert found.stdout == path.encode("utf-8", "surrogateescape")
    assert printable(shell_word(path)) == shell_word(path)


def test_suggestions_and_cuts():
    assert did_you_mean("nanogtp", ["tiny", "nanogpt"]) == " (did you mean nanogpt?)"
    assert closest("--step", ["--stop-at", "--steps"]) == "--steps"
    assert closest("dec", ["decoder-2017"]) == "decoder-2017"
    assert did_you_mean("", ["a"]) == did_you_mean("x" * 10**6, ["y"]) == ""
    assert len(shortened("x" * 10**6)) <= 1000 and shortened("short") == "short"
