"""`python -m mlirtri` is the command `mlirtri`, where the folder of commands is not on PATH."""

from mlirtri.cli.entry import main

if __name__ == "__main__":
    main()
