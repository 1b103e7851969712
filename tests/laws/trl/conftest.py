"""Run torch on one thread."""

from __future__ import annotations

import os

os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")

import torch

torch.set_num_threads(1)
