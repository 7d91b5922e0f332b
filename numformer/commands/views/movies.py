"""Write a film as an animated GIF or as an MP4."""

import io
from pathlib import Path

import numpy as np

from numformer.files import write_atomically
from numformer.plots.axes import styled
from numformer.plots.training.film import film_frame

DPI = 100                                             # 8 inches: 800 pixels
COLOURS = 255
FPS, HOLD = 4.0, 3.0                                  # HOLD: seconds, of the last state


def save_gif(film, path, fps, hold):
    """Write an animated GIF that repeats.

    One palette for all frames, without dithering: colours do not flicker, and what does not change
    takes no space.

    Parameters
    ----------
    film : Film
    path : path
    fps : float
        States per second.
    hold : float
        Seconds for which the last state stays longer.
    """
    from PIL import Image

    frames = [Image.fromarray(pixels) for pixels in _pixels(film)]
    width, height = frames[0].size
    some = [frames[k * (len(frames) - 1) // 4] for k in range(5)]
    montage = Image.new("RGB", (width, height * len(some)))
    for k, frame in enumerate(some):
        montage.paste(frame, (0, k * height))
    palette = montage.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    frames = [_with_palette(frame, palette) for frame in frames]
    each = round(1000 / fps)
    durations = [each] * (len(frames) - 1) + [each + round(1000 * hold)]
    data = io.BytesIO()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    write_atomically(path, data.getvalue())


def _with_palette(frame, palette):
    """A frame in the colours of a palette, and in one more: the ground, exactly."""
    from PIL import Image

    pixels = np.asarray(frame)
    ground = pixels[0, 0]
    index = np.array(frame.quantize(palette=palette, dither=Image.Dither.NONE))
    index[(pixels == ground).all(axis=2)] = COLOURS
    colours = np.zeros((256, 3), np.uint8)
    known = np.array(palette.getpalette(), np.uint8).reshape(-1, 3)[:COLOURS]
    colours[:len(known)], colours[COLOURS] = known, ground
    image = Image.fromarray(index)
    image.putpalette(colours.tobytes())
    return image


@styled
def save_mp4(film, path, fps, hold):
    """Write an MP4 with ffmpeg, which must be on the PATH; parameters as of `save_gif`."""
    from matplotlib.animation import FFMpegWriter

    figure = film_frame(film, 0)
    temporary = Path(path).with_name(f".{Path(path).stem}.tmp.mp4")
    writer = FFMpegWriter(fps=fps, extra_args=["-pix_fmt", "yuv420p"])
    try:
        with writer.saving(figure, temporary, DPI):
            for number in range(len(film.steps)):
                film_frame(film, number, figure.axes[0])
                writer.grab_frame()
            for _ in range(round(hold * fps)):
                writer.grab_frame()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _pixels(film):
    """The pixels (height, width, 3) of every frame."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for number in range(len(film.steps)):
        figure = film_frame(film, number)
        figure.set_dpi(DPI)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()
