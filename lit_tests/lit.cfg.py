"""The lit tests: each file's RUN lines show the text of one stage to FileCheck.

Needs the environment that `make lit` makes, and no PATH: every tool is found beside the Python that runs lit.
"""

import mlirtri.lit

mlirtri.lit.configure(config, lit_config, __file__, name="mlirtri")
