"""The benchmarks are no part of the package: they are imported from the checkout."""

import sys

from tests.packages import ROOT
from tests.service.conftest import database_url, new_postgres, postgres_server  # noqa: F401

sys.path.append(str(ROOT))
