"""The CPU rules for convolutions, which differ in the axis along which their results are contiguous.

*Takes* a PrimFunc with one product of which an operand is an image, read at sums of axes, perhaps padded there. *Gives*
a `Schedule` whose tasks are chunks of rows of the result. *Refuses* any other function with None.

Read in this order:

- `padded_channels.py`: the padded copy of one channel of an image.
- `padded_chunks.py`: the padded copy of all channels for a chunk of rows.
- `tasks.py`: the loop over images, chunks and parts of the channels.
- `channels_first.py`: NCHW; packs pixels for tiles of output channels × pixels.
- `channels_last.py`: NHWC; tiles of pixels × output channels.
- `packed_filters.py`: NCHW with filters that are packed once; the same tiles, whose results are transposed.
- `depthwise.py`: each channel with its own filter.

`schedule.cpu.loops`, `schedule.cpu` and `schedule` may import it.
"""
