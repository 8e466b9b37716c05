"""Where tests find this repository and real data: in the folder that STARQE_DATA names, or beside the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("STARQE_DATA") or ROOT.parent / "shared" / "data")
WD50K = DATA / "wd50k"
