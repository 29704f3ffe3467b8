import pytest


@pytest.fixture(autouse=True)
def default_stream():
    """torch_npu's graph context does not restore the stream when the end of a capture fails."""
    import torch

    torch.npu.set_stream(torch.npu.default_stream())
    yield
    torch.npu.set_stream(torch.npu.default_stream())
