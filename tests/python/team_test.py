"""Processes of torch.distributed share the samples and find what one process finds."""

import json
import os
import socket
import subprocess
import sys
import unittest

try:
    import numpy as np
    import bespoke._core  # noqa: F401
    import torch
    import torch.distributed as distributed
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not distributed.is_available() or not distributed.is_gloo_available():
    print("skipped: this PyTorch has no gloo")
    sys.exit(77)

import bespoke
from mixtures import two_gaussians

TIMEOUT = 120  # seconds


def find():
    """What this process finds, and how many samples it was asked about itself."""
    asked = []

    def field(t, x):
        asked.append(len(x))
        return torch.from_numpy(two_gaussians(t.numpy(), x.numpy()))

    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((24, 8)))
    result = bespoke.distill(field, noise, nfe=4, iterations=2, progress=False)
    solver = result.solver
    return {"times": solver.times, "a": solver.a, "b": solver.b, "psnr": result.psnr,
            "asked": sum(asked)}


def member(rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    print(json.dumps(find()), flush=True)
    distributed.destroy_process_group()


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Teams(unittest.TestCase):
    def test_members_find_what_one_process_finds_and_share_the_work(self):
        port, alone = free_port(), find()
        members = [subprocess.Popen([sys.executable, __file__, str(rank), "2", str(port)],
                                    stdout=subprocess.PIPE, text=True) for rank in range(2)]
        answers = []
        for process in members:
            out, _ = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 0)
            answers.append(json.loads(out.splitlines()[-1]))
        for answer in answers:
            np.testing.assert_allclose(answer["times"], alone["times"], rtol=1e-9)
            np.testing.assert_allclose(answer["a"], alone["a"], rtol=1e-9, atol=1e-9)
            for found, expected in zip(answer["b"], alone["b"]):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            self.assertAlmostEqual(answer["psnr"], alone["psnr"], places=6)
            self.assertLess(answer["asked"], 0.6 * alone["asked"])


if __name__ == "__main__":
    if len(sys.argv) == 4:
        member(*(int(argument) for argument in sys.argv[1:]))
    else:
        unittest.main()
