"""Calls of torch's convolutions, pools and paddings that kernels may hold; for the tests of spellings and of calls."""

from __future__ import annotations

import numpy as np
from spelling_calls import Case

random = np.random.default_rng(8)
F = "torch.nn.functional"


def some(*shape: int) -> np.ndarray:
    return random.uniform(-2, 2, shape).astype(np.float32)


LINES, PLANES, SPACES = some(2, 4, 9), some(2, 4, 7, 8), some(1, 4, 5, 4, 6)
OF_LINES, OF_PLANES, OF_SPACES = some(6, 4, 3), some(6, 4, 3, 2), some(6, 4, 2, 3, 2)
BIAS, WHOLE = some(6), np.arange(16, dtype=np.int64).reshape(1, 2, 8)

CONVOLUTIONS = [
    Case(f"{F}.conv2d", PLANES, OF_PLANES, BIAS, padding=1), Case("torch.conv2d", PLANES[0], OF_PLANES, None, 2),
    Case(f"{F}.conv2d", PLANES, OF_PLANES, BIAS, (1, 2), (2, 0), (2, 3)), Case(f"{F}.conv1d", LINES, OF_LINES, BIAS),
    Case(f"{F}.conv2d", PLANES, OF_PLANES[:, :2], padding="same", groups=2, dilation=(1, 2)),
    Case(f"{F}.conv2d", PLANES, OF_PLANES[:4, :1], groups=4, stride=2, padding="valid"),
    Case(f"{F}.conv1d", LINES[0], OF_LINES[:4, :1], padding="same", groups=4),
    Case(f"{F}.conv3d", SPACES, OF_SPACES, BIAS, padding=(1, 0, 2)), Case(f"{F}.conv1d", WHOLE, WHOLE[:, :, :3]),
    Case(f"{F}.conv3d", SPACES[0], OF_SPACES[:, :2], stride=2, groups=2),
    Case(f"{F}.conv_transpose2d", PLANES, OF_PLANES[:4], BIAS[:4], stride=2, padding=1, output_padding=(1, 0)),
    Case(f"{F}.conv_transpose2d", PLANES[0], OF_PLANES[:4, :3], BIAS, (3, 1), groups=2, dilation=(1, 2)),
    Case("torch.conv_transpose1d", LINES, OF_LINES[:4], None, 2),
    Case(f"{F}.conv_transpose1d", LINES, OF_LINES[:4], padding=3),
    Case(f"{F}.conv_transpose3d", SPACES, OF_SPACES[:4, :2], stride=(1, 2, 2), padding=(0, 1, 0)),
]  # fmt: skip
POOLS = [
    Case(f"{F}.max_pool2d", PLANES, 2), Case(f"{F}.max_pool2d", PLANES, 3, 2, 1),
    Case("torch.max_pool2d", PLANES, (3, 2), 1, (1, 0), (1, 2), True),
    Case(f"{F}.max_pool1d", LINES[0], 4, 2, 2, 1, True),
    Case(f"{F}.max_pool3d", SPACES, (2, 1, 3), ceil_mode=True), Case(f"{F}.max_pool2d", -PLANES, 2, 2, 1),
    Case(f"{F}.avg_pool2d", PLANES, 2), Case(f"{F}.avg_pool2d", PLANES, 3, 2, 1),
    Case(f"{F}.avg_pool2d", PLANES, 3, 2, 1, count_include_pad=False, ceil_mode=True),
    Case(f"{F}.avg_pool2d", PLANES, 3, 2, 1, ceil_mode=True), Case(f"{F}.avg_pool2d", PLANES, 2, divisor_override=3),
    Case("torch.avg_pool1d", LINES, 4, 3, 2, True),
    Case(f"{F}.avg_pool3d", SPACES[0], 2, 1, 1, count_include_pad=False),
    Case(f"{F}.adaptive_avg_pool2d", PLANES, 1), Case(f"{F}.adaptive_avg_pool2d", PLANES, (3, None)),
    Case(f"{F}.adaptive_avg_pool1d", LINES[0], 4), Case(f"{F}.adaptive_avg_pool3d", SPACES, (5, 2, 3)),
    Case(f"{F}.adaptive_max_pool2d", PLANES, (2, 4)), Case(f"{F}.adaptive_max_pool1d", LINES, 12),
]  # fmt: skip
PADS = [
    Case(f"{F}.pad", PLANES, (1, 2, 0, 3)), Case(f"{F}.pad", PLANES, (1, -2), value=2.5),
    Case(f"{F}.pad", WHOLE, (0, 1), "constant", -3),
    Case(f"{F}.pad", LINES, (1, 1, -1, 0, 2, 0), "constant"), Case(f"{F}.pad", PLANES, (3, 2, 6, 0), "reflect"),
    Case(f"{F}.pad", PLANES, (9, 1, 0, 8), mode="replicate"), Case(f"{F}.pad", PLANES, (8, 2, 0, 7), mode="circular"),
    Case(f"{F}.pad", LINES, (-2, 3), "replicate"), Case(f"{F}.pad", LINES, (2, -3), "reflect"),
    Case(f"{F}.pad", LINES, ()),
    Case(f"{F}.pad", SPACES, (1, 0, 2, 1, 1, 0), "circular"), Case(f"{F}.pad", LINES, (4, -2), "circular"),
]  # fmt: skip
WINDOWS = CONVOLUTIONS + POOLS + PADS
REFUSED = [
    ("the weight takes 4 channels, not 2", Case(f"{F}.conv2d", PLANES[:, :2], OF_PLANES)),
    ("channels are in groups of one size", Case(f"{F}.conv2d", PLANES, OF_PLANES, groups=4)),
    ("is larger than the padded input", Case(f"{F}.conv2d", PLANES[:, :, :1], OF_PLANES)),
    ("'same' is for a stride of 1", Case(f"{F}.conv2d", PLANES, OF_PLANES, stride=2, padding="same")),
    ("stride is a number of 1 or more, or 2 of them", Case(f"{F}.conv2d", PLANES, OF_PLANES, stride=(1, 2, 3))),
    ("have one dtype, not float32, int64", Case(f"{F}.conv1d", LINES, WHOLE)),
    ("output_padding is smaller", Case(f"{F}.conv_transpose1d", LINES, OF_LINES[:4], output_padding=1)),
    ("at most half of kernel_size", Case(f"{F}.max_pool2d", PLANES, 2, padding=2)),
    ("return_indices=…\\) is not supported", Case(f"{F}.max_pool2d", PLANES, 2, return_indices=True)),
    ("avg_pool1d takes floats, not int64", Case(f"{F}.avg_pool1d", WHOLE, 2)),
    ("constant, reflect, replicate, circular, not 'edge'", Case(f"{F}.pad", LINES, (1, 1), "edge")),
    ("pads axis 2 of .* by up to 8, not by 9", Case(f"{F}.pad", LINES, (9, 0), "reflect")),
    ("two widths for each of the last axes", Case(f"{F}.pad", LINES, (9,))),
]  # fmt: skip
