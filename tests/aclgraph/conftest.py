import pytest


@pytest.fixture(autouse=True)
def nothing_left_on_the_device():
    """A fault of one test must not surface in the next."""
    yield
    import torch

    if "npu" in dir(torch) and torch.npu.is_initialized():
        torch.npu.synchronize()
