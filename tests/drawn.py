"""What every drawing of the book is held to."""

from whenpool.report.drawings import FONT, WIDTH


def check_words(figure):
    """Words are large, stay inside of the figure, and none covers another."""
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    assert width / figure.dpi == WIDTH
    texts = [text for axes in figure.axes for text in axes.texts]
    boxes = [text.get_window_extent() for text in texts]
    assert all(text.get_fontsize() >= FONT for text in texts)
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
