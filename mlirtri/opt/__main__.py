"""``python -m mlirtri.opt`` is the command ``mlirtri-opt``."""

from mlirtri.opt.main import main

raise SystemExit(main())
