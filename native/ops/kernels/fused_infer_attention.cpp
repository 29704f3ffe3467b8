// Fused attention for inference: npu_fused_infer_attention_score (_v2), npu_prompt_flash_attention
// and npu_incre_flash_attention. The arguments are checked when the call is recorded; a task
// group's update records the call again, so changed lengths are checked there.
#include <memory>

#include "../attention/arguments.h"
#include "kernels.gen.h"

namespace softnpu::ops::kernels {

namespace {

using attention::Call;
using attention::Problem;
using attention::Sequence;

// With padding on the left a sequence ends `padding` rows before the end of its tensor; -1 where
// its first row would lie outside.
int64_t first_row(int64_t rows, const at::Tensor& padding, int64_t count) {
  const int64_t after = std::max<int64_t>(0, padding.item<int64_t>());
  return std::max<int64_t>(-1, rows - after - count);
}

Problem shifted(const Call& call) {
  Problem problem = call.problem;
  for (Sequence& sequence : problem.sequences) {
    if (call.padding.query.defined()) {
      sequence.query_first =
          first_row(call.padding.query_rows, call.padding.query, sequence.query_count);
      TORCH_CHECK(sequence.query_first >= 0, "'query_padding_size' leaves less than ",
                  sequence.query_count, " of ", call.padding.query_rows, " rows for sequence ",
                  sequence.batch);
    }
    if (call.padding.key.defined()) {
      sequence.key_first = first_row(call.padding.key_rows, call.padding.key, sequence.key_count);
      TORCH_CHECK(sequence.key_first >= 0 || sequence.query_count == 1,
                  "'kv_padding_size' leaves "
                  "less than ",
                  sequence.key_count, " of ", call.padding.key_rows, " rows for sequence ",
                  sequence.batch);
    }
    if (sequence.key_first < 0) {  // documented for a single query: the output is zero
      sequence.key_first = sequence.key_count = 0;
    }
  }
  return problem;
}

void run_attention(const Call& call) {
  if (!call.fills_out) {
    call.out.zero_();
  }
  if (call.lse.defined() && call.lse.numel() > 0) {
    call.lse.fill_(call.wants_lse ? std::numeric_limits<float>::infinity() : 0.0f);
  }
  const bool padded = call.padding.query.defined() || call.padding.key.defined();
  compute(padded ? shifted(call) : call.problem);
}

}  // namespace

PreparedRun fused_infer_attention(const NamedInputs& in) {
  auto call = std::make_shared<const Call>(attention::read_call(in));
  return [call] { run_attention(*call); };
}

}  // namespace softnpu::ops::kernels
