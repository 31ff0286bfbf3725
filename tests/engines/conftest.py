"""Engine tests start real processes on loopback; helpers lie beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_packages import check_engines

check_engines()
