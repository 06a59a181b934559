"""``python -m mlirtri.cli`` is the command ``mlirtri``."""

from mlirtri.cli.entry import main

main()
