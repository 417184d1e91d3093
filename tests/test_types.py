"""A user's strict mypy sees the types of the public names."""

import subprocess
import sys
from pathlib import Path

USER = """
import torch
from torch import Tensor

import whenpool
from whenpool import Encoder, MaxAttention, SequenceTagger, TextClassifier

pool = MaxAttention()
embedding, weights = pool.pool(torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))
model = TextClassifier(100, classes=2)
tagger: SequenceTagger = SequenceTagger(100, 5)
states: Tensor = Encoder(4, 3)(torch.randn(2, 3, 4), torch.tensor([3, 2]))
reveal_type(whenpool.load("synthetic").classes)
reveal_type(whenpool.PoolingClassifier.save)
MaxAttention(size="large")
"""


def test_a_strict_mypy_of_the_user_sees_them(tmp_path):
    assert (Path(__file__).parents[1] / "lib" / "whenpool" / "py.typed").is_file()
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", *f"mypy --strict --cache-dir {tmp_path / 'cache'} user.py".split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert 'Revealed type is "tuple[str, ...]"' in lines[0]
    assert "Path" in lines[1]
    assert 'Argument "size" to "MaxAttention" has incompatible type "str"' in lines[2]
    assert [line for line in lines if "error" in line][1:] == [
        "Found 1 error in 1 file (checked 1 source file)"
    ]
