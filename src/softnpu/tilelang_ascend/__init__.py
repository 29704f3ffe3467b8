"""The TileLang-Ascend dialect: front-end, checks, C++ emitter, compiler driver and launcher."""
