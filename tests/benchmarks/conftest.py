"""The benchmarks are no part of the package: they are imported from the checkout."""

import sys

from tests.packages import ROOT

sys.path.append(str(ROOT))
