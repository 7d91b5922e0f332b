"""Names of the table of the decks are found, with the page that defines them."""

import pytest

from numformer.teaching.deck.targets import conventions, find, misprint, page


@pytest.mark.parametrize("name, where", [
    ("functional.softmax", "functional/softmax.py"),
    ("functional.CAUSAL", "functional/attention/masks.py"),           # a value, imported twice
    ("models.LLAMA", "models/decoder/config.py"),                      # a dict
    ("models.CONFIGS", "models/__init__.py"),                          # a value made there
    ("layers.LSTM.step", "layers/recurrent/through_time.py"),          # an inherited method
    ("kernels.attention", "kernels/attention/__init__.py"),            # a folder
    ("minimal", "minimal.py"),                                         # a page
    ("backend.threads", "backend/pool.py")])                           # wrapped by a decorator
def test_the_page_of_a_name(name, where):
    assert page(name) == f"numformer/{where}"


@pytest.mark.parametrize("name", ["none", "functional.none", "layers.LSTM.none", "minimal.a.b"])
def test_a_name_that_does_not_exist(name):
    with pytest.raises(LookupError, match=f"numformer.{name} does not exist"):
        find(name)


def test_rows_of_the_conventions_are_read_whole():
    rows = conventions()
    assert len(rows) > 60 and all(len(row) == 3 and all(row) for row in rows)
    assert len(misprint("C, summary")) == 4 and len(misprint("C, summary|another name")) == 1
    assert misprint("C, summary|nothing of the kind") == [] == misprint("summary")
