"""``python -m mlirtri.cli`` is the command ``mlirtri``."""

from mlirtri.cli.main import main

main()
