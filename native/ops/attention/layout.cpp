#include "layout.h"

namespace softnpu::ops::attention {

Layout layout_of(const std::string& name) {
  static const char* const kNames[] = {
      "BSH",       "BSND",     "BNSD",      "TND",       "NTD",     "BNSD_BSND", "BSH_BNSD",
      "BSND_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD", "TND_NTD", "NTD_TND"};
  std::string known;
  for (const char* candidate : kNames) {
    known += (known.empty() ? "" : ", ") + std::string(candidate);
    if (name == candidate) {
      const size_t split = name.find('_');
      const std::string input = name.substr(0, split);
      return {input, split == std::string::npos ? input : name.substr(split + 1),
              input.find('T') != std::string::npos};
    }
  }
  TORCH_CHECK(false, "'input_layout' is '", name, "', expected one of ", known);
}

Axes axes_of(const at::Tensor& tensor, const std::string& letters, int64_t heads,
             const char* param) {
  TORCH_CHECK(tensor.dim() == static_cast<int64_t>(letters.size()), "'", param, "' has shape ",
              tensor.sizes(), ", expected ", letters.size(), " dimensions (", letters, ")");
  Axes axes;
  axes.rows.data = static_cast<uint16_t*>(tensor.data_ptr());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const int64_t size = tensor.size(i), stride = tensor.stride(i);
    switch (letters[i]) {
      case 'B':
        axes.batches = size;
        axes.rows.batch = stride;
        break;
      case 'N':
        axes.heads = size;
        axes.rows.head = stride;
        break;
      case 'S':
      case 'T':
        axes.tokens = size;
        axes.rows.row = stride;
        break;
      case 'D':
        axes.dim = size;
        break;
      default:
        TORCH_CHECK(size % heads == 0, "'", param, "' has ", size,
                    " in its last dimension (H), "
                    "which is no multiple of its ",
                    heads, " heads");
        axes.heads = heads;
        axes.dim = size / heads;
        axes.rows.head = axes.dim;
    }
  }
  TORCH_CHECK(axes.heads == heads, "'", param, "' has shape ", tensor.sizes(), " (", letters,
              "), expected ", heads, " heads, got ", axes.heads);
  return axes;
}

void check_plain(const at::Tensor& tensor, at::ScalarType dtype, const char* param) {
  TORCH_CHECK(tensor.scalar_type() == dtype, "'", param, "' is ", tensor.scalar_type(),
              ", expected ", dtype,
              " (the dtype of query; fp16 and bf16 are implemented, quantised "
              "inputs are not)");
  TORCH_CHECK(tensor.is_contiguous(), "'", param, "' is not contiguous (shape ", tensor.sizes(),
              ", strides ", tensor.strides(), "); the operator takes contiguous tensors only");
}

}  // namespace softnpu::ops::attention
