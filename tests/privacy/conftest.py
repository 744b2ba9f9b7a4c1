"""A ledger with an open budget, in a temporary folder."""

import pytest

from tests.privacy.toy import open_toy


@pytest.fixture
def ledger(tmp_path):
    """Budget of epsilon 1 for the data set 'toy', unit 'consensus label'."""
    return open_toy(tmp_path)
