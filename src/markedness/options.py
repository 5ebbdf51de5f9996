"""What several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ParamsFile = Annotated[Path, typer.Option("--params", help="The params file; its folder is the study.")]
DEFAULT = Path("params.yaml")
