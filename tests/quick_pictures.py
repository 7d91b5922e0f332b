"""Trainings of tests whose subject is no picture draw theirs small and without a layout engine."""

import io
from unittest import mock

import pytest

from numformer.commands import train
from numformer.commands.shared import output
from numformer.training.checkpoint import write_atomically


def saved_small(picture, path):
    """A tenth of the time of `save_picture`; the same picture gives the same bytes, too."""
    data = io.BytesIO()
    picture.figure.set_layout_engine("none")
    picture.figure.savefig(data, format=path.suffix[1:], dpi=10, metadata={"Software": None})
    write_atomically(path, data.getvalue())


def drawn_small(*arguments, draw=train.draw_pictures):
    with mock.patch.object(output, "save_picture", saved_small):
        draw(*arguments)


@pytest.fixture(autouse=True, scope="module")
def small_pictures():
    with mock.patch.object(train, "draw_pictures", drawn_small):
        yield
