"""The picture of a pipeline shows the operations of its schedule, and its idle time."""

from contextlib import nullcontext

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from numformer import plots
from numformer.analysis import bubble_share, pipeline_schedule
from numformer.analysis.parallel.pipeline import Operation

MODES = {"page": nullcontext, "dark": plots.dark, "slides": plots.slides}


def boxes_of(ax):
    """{label: [(stage, start, stop)]} of the bars on the axes."""
    found = {}
    for bars in ax.containers:
        found[bars.get_label()] = [
            (round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_x() + bar.get_width())
            for bar in bars]
    return found


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
def test_boxes_are_the_operations_and_hatches_all_the_time(kind):
    schedule = pipeline_schedule(3, 4, kind)
    ax = plots.pipeline_picture(schedule)
    idle, forward, backward = (boxes_of(ax)[name] for name in ("idle", "forward", "backward"))
    for direction, boxes in (("forward", forward), ("backward", backward)):
        assert boxes == [(each.stage, each.start, each.stop) for each in schedule
                         if each.direction == direction]
    assert idle == [(stage, 0, 18) for stage in range(3)]
    assert [text.get_text() for text in ax.texts] == [
        str(each.micro_batch + 1) for direction in ("forward", "backward") for each in schedule
        if each.direction == direction]
    assert ax.get_title() == "Pipeline: 33% of the time is idle"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "3"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first stage is above"


def test_boxes_cover_the_hatches_and_leave_idle_time_visible():
    schedule = pipeline_schedule(4, 4)
    ax = plots.pipeline_picture(schedule)
    for text in list(ax.texts):
        text.remove()
    for bar in ax.patches:
        bar.set(linewidth=0)
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    box, pixels = ax.get_window_extent(), np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    faces = {to_hex(bars[0].get_facecolor()) for bars in ax.containers[1:]}
    for row in range(4):                              # from below; each stage is idle as long
        line = pixels[int(box.y0 + box.height * (row + 0.5) / 4), round(box.x0):round(box.x1)]
        busy = [to_hex(pixel / 255) in faces for pixel in line]
        assert np.mean(busy) == pytest.approx(1 - bubble_share(schedule), abs=0.02)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stages, micro_batches, numbered", [
    (1, 2, {"forward", "backward"}), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in (
        (4, 8, {"forward", "backward"}), (4, 10, {"backward"}), (2, 64, set()), (24, 3, set())))])
def test_numbers_lie_inside_of_their_boxes_or_are_left_out(mode, stages, micro_batches, numbered):
    with MODES[mode]():
        ax = plots.pipeline_picture(pipeline_schedule(stages, micro_batches))
        ax.figure.draw_without_rendering()
    boxes = [bar.get_window_extent() for bars in ax.containers if bars.get_label() in numbered
             for bar in bars]
    assert len(boxes) == len(ax.texts) == len(numbered) * stages * micro_batches
    for text, box in zip(ax.texts, boxes):
        text = text.get_window_extent()
        assert box.x0 < text.x0 and text.x1 < box.x1 and box.y0 < text.y0 and text.y1 < box.y1


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_stages_are_numbered_as_far_as_they_fit(mode):
    with MODES[mode]():
        ax = plots.pipeline_picture(pipeline_schedule(30, 2))
        ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == (15 if mode == "slides" else 30)
    assert not any(one.overlaps(following) for one, following in zip(boxes, boxes[1:]))


def test_numbers_are_left_out_of_rows_that_are_too_low():
    ax = Figure((8, 2), layout="constrained").add_subplot()
    assert not plots.pipeline_picture(pipeline_schedule(8, 2), ax).texts


@pytest.mark.parametrize("mode", MODES)
def test_texts_are_large_enough_and_faces_are_visible(mode):
    with MODES[mode]():
        ax = plots.pipeline_picture(pipeline_schedule(4, 8))
        ax.figure.draw_without_rendering()
    least = 17.99 if mode == "slides" else 11.99
    assert min(text.get_fontsize() for text in ax.figure.findobj(Text)
               if text.get_text().strip()) >= least
    ground = to_hex(ax.get_facecolor())
    assert ground == ("#14161a" if mode == "dark" else "#ffffff")
    idle, forward, backward = ax.containers
    faces = [to_hex(bars[0].get_facecolor()) for bars in (forward, backward)]
    assert len({ground, *faces}) == 3 and idle[0].get_hatch()
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["forward", "backward", "idle"]


def test_it_draws_on_axes_of_others_and_schedules_of_forwards_alone():
    first, second = Figure((8, 6), layout="constrained").subplots(2, 1)
    schedule = [Operation(0, "forward", 0, 5.0, 6.0), Operation(1, "forward", 0, 6.0, 9.0)]
    assert plots.pipeline_picture(schedule, second, title="Inference") is second
    assert second.get_title() == "Inference: 50% of the time is idle"
    assert second.get_xlim() == (5, 9) and not first.containers
    second.figure.draw_without_rendering()


def test_an_empty_schedule_is_refused():
    with pytest.raises(ValueError, match="pipeline_picture: schedule is empty"):
        plots.pipeline_picture([])
