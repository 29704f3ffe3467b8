#include "arguments.h"

#include <algorithm>
#include <tuple>

#include "layout.h"
#include "lengths.h"

namespace softnpu::ops::attention {

namespace {

using Names = ParamName;

const Names kHeads{"num_heads", "num_query_heads"};
const Names kScale{"scale", "softmax_scale"};
const Names kQueryLengths{"actual_seq_lengths", "actual_seq_qlen"};
const Names kKeyLengths{"actual_seq_lengths_kv", "actual_seq_kvlen"};
const Names kWantsLse{"softmax_lse_flag", "return_softmax_lse"};

// Parameters that change the result and are not implemented.
const Names kRefusedTensors[] = {"dequant_scale1",
                                 {"quant_scale1", "quant_scale_p"},
                                 "dequant_scale2",
                                 {"quant_scale2", "quant_scale_out"},
                                 {"quant_offset2", "quant_offset_out"},
                                 "antiquant_scale",
                                 "antiquant_offset",
                                 {"key_antiquant_scale", "dequant_scale_key"},
                                 {"key_antiquant_offset", "dequant_offset_key"},
                                 {"value_antiquant_scale", "dequant_scale_value"},
                                 {"value_antiquant_offset", "dequant_offset_value"},
                                 "key_shared_prefix",
                                 "value_shared_prefix",
                                 {"key_rope_antiquant_scale", "dequant_scale_key_rope"},
                                 "dequant_scale_query",
                                 "q_start_idx",
                                 "kv_start_idx"};

class Reader {
 public:
  explicit Reader(const NamedInputs& in) : in_(in), layout_(layout_of(in.text("input_layout"))) {}
  Call read();

 private:
  void refuse_unimplemented() const;
  void read_query();
  void read_keys();
  void read_paged_keys(const at::Tensor& key, const at::Tensor& value);
  CacheRows paged(const at::Tensor& cache, const char* param, int64_t dim) const;
  void check_block_size() const;
  void read_rope();
  void check_sizes() const;
  void check_packed_sizes() const;
  void read_lengths();
  std::vector<int64_t> counts(const Names& param, int64_t batch, int64_t limit) const {
    return lengths_of_list(in_.ints(param), in_.name(param), batch, limit);
  }
  void read_packed_lengths(std::vector<int64_t>& query, std::vector<int64_t>& keys);
  void read_padding();
  void read_mask();
  void read_mask_strides(const at::Tensor& mask);
  void read_bias();
  void read_sink();
  void read_outputs();

  // One query per sequence: the decode form, in which lengths of queries and most masks mean
  // nothing.
  bool single() const { return !layout_.packed && query_.tokens == 1; }
  bool paged() const { return block_table_.defined(); }

  const NamedInputs& in_;
  const Layout layout_;
  Call call_;
  Problem& p_ = call_.problem;
  Axes query_;
  at::Tensor block_table_;
  int64_t key_tokens_ = 0;  // of one sequence, at most; of all where packed
  int64_t block_size_ = 0;
};

void Reader::refuse_unimplemented() const {
  for (const Names& name : kRefusedTensors) {
    TORCH_CHECK(
        !in_.tensor(name).defined(), "'", in_.name(name),
        "' is not implemented; softnpu "
        "computes fp16 and bf16 attention without quantisation or shared prefix. Pass None");
  }
  TORCH_CHECK(in_.ints("actual_shared_prefix_len").empty(),
              "'actual_shared_prefix_len' is not implemented. Pass None");
  TORCH_CHECK(in_.integer("pse_type") == 0, "'pse_type' is ", in_.integer("pse_type"),
              ", only 0 is implemented");
}

void Reader::read_query() {
  const at::Tensor query = in_.tensor("query");
  p_.dtype = query.scalar_type();
  TORCH_CHECK(p_.dtype == at::kHalf || p_.dtype == at::kBFloat16, "'query' is ", p_.dtype,
              ", expected Half or BFloat16");
  check_plain(query, p_.dtype, "query");
  p_.heads = in_.integer(kHeads);
  TORCH_CHECK(p_.heads > 0 && p_.heads <= 256, "'", in_.name(kHeads), "' is ", p_.heads,
              ", expected 1 to 256");
  query_ = axes_of(query, layout_.input, p_.heads, "query");
  TORCH_CHECK(in_.has("sparse_mode") || query_.tokens == 1, "'query' has ", query_.tokens,
              " tokens per sequence, this operator takes one");
  p_.packed = layout_.packed;
  p_.query = query_.rows;
  p_.dim = query_.dim;
  p_.scale = static_cast<float>(in_.real(kScale));
  const int64_t given = in_.integer("num_key_value_heads");
  p_.kv_heads = given == 0 ? p_.heads : given;
  TORCH_CHECK(p_.kv_heads > 0 && p_.heads % p_.kv_heads == 0 && p_.heads / p_.kv_heads <= 64,
              "'num_key_value_heads' is ", given, ", expected a divisor of '", in_.name(kHeads),
              "' (", p_.heads, ") that is at least a 64th of it, or 0 for the same number");
}

void Reader::check_block_size() const {
  const bool mla = p_.dim == 512;
  const int64_t most = layout_.packed || mla ? 1024 : 512;
  const int64_t unit = layout_.packed || mla || single() ? 16 : 128;
  TORCH_CHECK(block_size_ > 0 && block_size_ <= most && block_size_ % unit == 0, "'block_size' is ",
              block_size_, ", expected a multiple of ", unit, " up to ", most,
              " for this layout with ", single() ? "one query" : "several queries",
              " per sequence");
}

CacheRows Reader::paged(const at::Tensor& cache, const char* param, int64_t dim) const {
  TORCH_CHECK(cache.dim() != 5, "'", param,
              "' has 5 dimensions: the NZ format of a paged cache is "
              "not implemented; use (blocks, block_size, H) or (blocks, heads, block_size, D)");
  const bool heads_first = cache.dim() == 4;
  TORCH_CHECK(
      cache.dim() == 3 || (heads_first && layout_.input != "BSH" && layout_.input != "BSND"), "'",
      param, "' has shape ", cache.sizes(),
      "; a paged cache is (blocks, block_size, H)"
      " or, unless input_layout is BSH or BSND, (blocks, heads, block_size, D)");
  const Axes axes = axes_of(cache, heads_first ? "BNSD" : "BSH", p_.kv_heads, param);
  TORCH_CHECK(axes.tokens == block_size_, "'", param, "' has blocks of ", axes.tokens,
              " tokens (shape ", cache.sizes(), "), 'block_size' is ", block_size_);
  TORCH_CHECK(dim == 0 || axes.dim == dim, "'", param, "' has head size ", axes.dim, ", expected ",
              dim);
  CacheRows rows{axes.rows};
  rows.blocks = static_cast<const int32_t*>(block_table_.data_ptr());
  rows.blocks_per_sequence = block_table_.size(1);
  rows.block_size = block_size_;
  return rows;
}

void Reader::read_paged_keys(const at::Tensor& key, const at::Tensor& value) {
  TORCH_CHECK(block_table_.dim() == 2 && block_table_.scalar_type() == at::kInt &&
                  block_table_.is_contiguous(),
              "'block_table' is ", block_table_.scalar_type(), block_table_.sizes(),
              ", expected a contiguous int32 tensor [batch, blocks per sequence]");
  block_size_ = in_.integer("block_size");
  check_block_size();
  p_.key = paged(key, "key", p_.dim);
  p_.value = paged(value, "value", 0);
  p_.value_dim = value.dim() == 4 ? value.size(3) : value.size(2) / p_.kv_heads;
  p_.block_count = key.size(0);
  TORCH_CHECK(value.size(0) == key.size(0), "'value' has ", value.size(0), " blocks, 'key' has ",
              key.size(0));
  key_tokens_ = block_table_.size(1) * block_size_;
}

void Reader::read_keys() {
  const auto keys = in_.tensors("key"), values = in_.tensors("value");
  TORCH_CHECK(keys.size() == 1 && values.size() == 1, "'key' and 'value' list ", keys.size(),
              " and ", values.size(), " tensors; only one tensor each is implemented");
  check_plain(keys[0], p_.dtype, "key");
  check_plain(values[0], p_.dtype, "value");
  block_table_ = in_.tensor("block_table");
  if (paged()) {
    read_paged_keys(keys[0], values[0]);
    return;
  }
  const Axes key = axes_of(keys[0], layout_.input, p_.kv_heads, "key");
  const Axes value = axes_of(values[0], layout_.input, p_.kv_heads, "value");
  TORCH_CHECK(key.dim == p_.dim, "'key' has head size ", key.dim, ", 'query' has ", p_.dim);
  TORCH_CHECK(key.batches == query_.batches, "'key' has batch size ", key.batches, ", 'query' has ",
              query_.batches);
  TORCH_CHECK(value.batches == key.batches && value.tokens == key.tokens, "'value' has shape ",
              values[0].sizes(), ", which does not match 'key' ", keys[0].sizes());
  p_.key.rows = key.rows;
  p_.value.rows = value.rows;
  p_.value_dim = value.dim;
  key_tokens_ = key.tokens;
}

void Reader::read_rope() {
  const at::Tensor query = in_.tensor("query_rope"), key = in_.tensor("key_rope");
  TORCH_CHECK(query.defined() == key.defined(), "'", query.defined() ? "key_rope" : "query_rope",
              "' is missing: query_rope and key_rope are given together or not at all");
  if (!query.defined()) {
    return;
  }
  check_plain(query, p_.dtype, "query_rope");
  check_plain(key, p_.dtype, "key_rope");
  TORCH_CHECK(p_.dim == 512 || p_.dim == 128, "'query' has head size ", p_.dim,
              ", with query_rope it must be 512 or 128");
  const Axes axes = axes_of(query, layout_.input, p_.heads, "query_rope");
  p_.rope_dim = axes.dim;
  TORCH_CHECK(axes.dim == 64 && axes.batches == query_.batches && axes.tokens == query_.tokens,
              "'query_rope' has shape ", query.sizes(), ", expected that of query with D = 64");
  p_.query_rope = axes.rows;
  if (paged()) {
    p_.key_rope = paged(key, "key_rope", 64);
    TORCH_CHECK(key.size(0) == p_.block_count, "'key_rope' has ", key.size(0),
                " blocks, 'key' has ", p_.block_count);
    return;
  }
  const Axes key_axes = axes_of(key, layout_.input, p_.kv_heads, "key_rope");
  TORCH_CHECK(
      key_axes.dim == 64 && key_axes.batches == query_.batches && key_axes.tokens == key_tokens_,
      "'key_rope' has shape ", key.sizes(), ", expected that of key with D = 64");
  p_.key_rope.rows = key_axes.rows;
}

void Reader::check_packed_sizes() const {
  const int64_t d = p_.dim, v = p_.value_dim;
  if (d == 512) {
    TORCH_CHECK(p_.rope_dim > 0, "'query_rope' is missing: head size 512 in layout ", layout_.input,
                " is multi-head latent attention, which needs query_rope and key_rope");
    return;
  }
  const bool fits = p_.rope_dim > 0
                        ? d == 128 && v == 128
                        : ((d == 64 || d == 128) && v == d) || (d == 192 && (v == 128 || v == 192));
  TORCH_CHECK(
      fits, "'query' and 'value' have head sizes ", d, " and ", v, ", layout ", layout_.input,
      " takes 64 and 64, 128 and 128, 192 and 128, or 192 and 192 (with query_rope only 128 "
      "and 128)");
}

void Reader::check_sizes() const {
  TORCH_CHECK(p_.dim > 0 && p_.dim <= 512 && p_.dim % 16 == 0, "'query' has head size ", p_.dim,
              ", expected a multiple of 16 up to 512");
  TORCH_CHECK(query_.batches <= 65536, "'query' has batch size ", query_.batches,
              ", expected at most 65536");
  const int64_t most = single() ? 262144 : 20971520;
  TORCH_CHECK(layout_.packed || key_tokens_ <= most, "'key' has ", key_tokens_,
              " tokens per sequence, expected at most ", most);
  TORCH_CHECK(p_.dim != 512 || p_.rope_dim == 0 || p_.kv_heads == 1, "'num_key_value_heads' is ",
              p_.kv_heads, ", expected 1 for multi-head latent attention with head size 512");
  if (layout_.packed) {
    check_packed_sizes();
  }
  const std::string name = in_.text("input_layout");
  TORCH_CHECK(name != "BNSD_BSND" || query_.tokens > 1,
              "'input_layout' BNSD_BSND needs more than one query per sequence");
  TORCH_CHECK(name != "BNSD_NBSD" || p_.rope_dim > 0 || (query_.tokens > 1 && query_.tokens <= 16),
              "'input_layout' BNSD_NBSD takes 2 to 16 queries per sequence, got ", query_.tokens);
  const int64_t precise = in_.integer("inner_precise");
  TORCH_CHECK(precise >= 0 && precise <= (single() ? 1 : 3), "'inner_precise' is ", precise,
              ", expected 0 to ", single() ? "1 with one query per sequence" : "3");
}

void Reader::read_packed_lengths(std::vector<int64_t>& query, std::vector<int64_t>& keys) {
  const char* query_name = in_.name(kQueryLengths);
  const char* key_name = in_.name(kKeyLengths);
  const auto query_sums = in_.ints(kQueryLengths), key_sums = in_.ints(kKeyLengths);
  const auto batch = static_cast<int64_t>(query_sums.size());
  TORCH_CHECK(batch > 0 && batch <= 4096, "'", query_name, "' has ", batch, " entries, layout ",
              layout_.input, " needs one running sum per sequence, 1 to 4096 of them");
  TORCH_CHECK(static_cast<int64_t>(key_sums.size()) == batch, "'", key_name, "' has ",
              key_sums.size(), " entries, expected as many as '", query_name, "', ", batch);
  query = lengths_of_sums(query_sums, query_name);
  TORCH_CHECK(query_sums.back() == query_.tokens, "'", query_name, "' ends with ",
              query_sums.back(), ", expected the number of tokens in 'query', ", query_.tokens,
              ": padding tokens belong to a sequence too");
  if (paged()) {
    keys = counts(kKeyLengths, batch, key_tokens_);
    return;
  }
  keys = lengths_of_sums(key_sums, key_name);
  TORCH_CHECK(key_sums.back() <= key_tokens_, "'", key_name, "' ends with ", key_sums.back(),
              ", 'key' has ", key_tokens_, " tokens");
}

void Reader::read_lengths() {
  std::vector<int64_t> query, keys;
  if (layout_.packed) {
    read_packed_lengths(query, keys);
  } else {
    query = single() ? std::vector<int64_t>(query_.batches, 1)
                     : counts(kQueryLengths, query_.batches, query_.tokens);
    TORCH_CHECK(!paged() || !in_.ints(kKeyLengths).empty(), "'", in_.name(kKeyLengths),
                "' is missing: a paged cache needs the length of every sequence");
    keys = counts(kKeyLengths, query_.batches, key_tokens_);
  }
  const auto batch = static_cast<int64_t>(query.size());
  TORCH_CHECK(!paged() || block_table_.size(0) == batch, "'block_table' has ", block_table_.size(0),
              " rows, expected one per sequence, ", batch);
  Sequence next;
  for (int64_t b = 0; b < batch; ++b) {
    next.batch = b;
    next.query_count = query[b];
    next.key_count = keys[b];
    p_.sequences.push_back(next);
    call_.fills_out = call_.fills_out && (layout_.packed || query[b] == query_.tokens);
    if (layout_.packed) {
      next.query_first += query[b];
      next.key_first += paged() ? 0 : keys[b];
    }
  }
}

void Reader::read_padding() {
  Padding& padding = call_.padding;
  padding = {in_.tensor("query_padding_size"), in_.tensor("kv_padding_size"), query_.tokens,
             key_tokens_};
  if (single()) {
    padding.query = at::Tensor();  // documented to have no effect
  }
  for (const auto& [name, tensor, lengths] :
       {std::tuple("query_padding_size", padding.query, kQueryLengths),
        std::tuple("kv_padding_size", padding.key, kKeyLengths)}) {
    if (!tensor.defined()) {
      continue;
    }
    TORCH_CHECK(tensor.numel() == 1 && tensor.scalar_type() == at::kLong, "'", name, "' is ",
                tensor.scalar_type(), tensor.sizes(), ", expected one int64");
    TORCH_CHECK(!paged() && !layout_.packed && p_.rope_dim == 0, "'", name,
                "' can't be combined with "
                "a paged cache, query_rope or layout ",
                layout_.input);
    TORCH_CHECK(!in_.ints(lengths).empty(), "'", name, "' needs '", in_.name(lengths), "'");
  }
}

void Reader::read_mask_strides(const at::Tensor& mask) {
  const auto batch = static_cast<int64_t>(p_.sequences.size());
  int64_t queries = layout_.packed ? 0 : query_.tokens, keys = layout_.packed ? 0 : key_tokens_;
  for (const Sequence& sequence : p_.sequences) {
    queries = std::max(queries, sequence.query_count);
    keys = std::max(keys, sequence.key_count);
  }
  const auto sizes = mask.sizes();
  const bool row_per_batch = mask.dim() == 2 && single();
  const int64_t masks = row_per_batch || mask.dim() > 2 ? sizes[0] : 1;
  const int64_t rows = row_per_batch ? 1 : mask.dim() >= 2 ? sizes[mask.dim() - 2] : 0;
  const bool flat = mask.dim() < 4 || sizes[1] == 1;
  TORCH_CHECK(mask.dim() >= 2 && mask.dim() <= 4 && flat && (masks == 1 || masks == batch) &&
                  rows >= queries && sizes.back() >= keys,
              "'atten_mask' has shape ", sizes, ", expected ",
              single() ? "[B, KV_S], " : "[Q_S, KV_S], ",
              "[1 or B, Q_S, KV_S] or [1 or B, 1, Q_S, KV_S] with B = ", batch,
              ", Q_S >= ", queries, " and KV_S >= ", keys);
  p_.visible.mask = static_cast<const uint8_t*>(mask.data_ptr());
  p_.visible.mask_row = rows == 1 ? 0 : sizes.back();
  p_.visible.mask_batch = masks == 1 ? 0 : rows * sizes.back();
}

void Reader::read_mask() {
  const at::Tensor mask = in_.tensor("atten_mask");
  const int64_t mode = in_.integer("sparse_mode");
  if (mask.defined()) {
    TORCH_CHECK(mask.scalar_type() == at::kBool || mask.scalar_type() == at::kChar ||
                    mask.scalar_type() == at::kByte,
                "'atten_mask' is ", mask.scalar_type(), ", expected bool, int8 or uint8");
    TORCH_CHECK(mask.is_contiguous(), "'atten_mask' is not contiguous");
  }
  const bool compressed = mode >= 2 && mode <= 4;
  if (single() &&
      p_.rope_dim == 0) {  // documented: sparse_mode and the token counts have no effect
    if (mask.defined() && !compressed) {
      read_mask_strides(mask);
    }
    return;
  }
  TORCH_CHECK(mode >= 0 && mode <= 4, "'sparse_mode' is ", mode, ", implemented are 0 to 4");
  TORCH_CHECK(mask.defined() || mode == 0, "'atten_mask' is missing, 'sparse_mode' ", mode,
              " needs one");
  if (compressed) {
    TORCH_CHECK(mask.dim() >= 2 && mask.dim() <= 4 && mask.numel() == 2048 * 2048 &&
                    mask.size(-1) == 2048 && mask.size(-2) == 2048,
                "'atten_mask' has shape ", mask.sizes(), ", 'sparse_mode' ", mode,
                " needs the upper triangle [2048, 2048]");
    p_.visible.from_end = mode != 2;
    p_.visible.before = mode == 4 ? in_.integer("pre_tokens") : Visibility::kAll;
    p_.visible.after = mode == 4 ? in_.integer("next_tokens") : 0;
    return;
  }
  if (!mask.defined()) {
    return;
  }
  read_mask_strides(mask);
  if (mode == 0 && !call_.padding.query.defined() && !call_.padding.key.defined()) {
    p_.visible.before = in_.integer("pre_tokens");
    p_.visible.after = in_.integer("next_tokens");
  }
}

void Reader::read_bias() {
  const at::Tensor bias = in_.tensor("pse_shift");
  if (!bias.defined()) {
    return;
  }
  TORCH_CHECK(!layout_.packed && p_.rope_dim == 0,
              "'pse_shift' can't be combined with query_rope or layout ", layout_.input);
  check_plain(bias, p_.dtype, "pse_shift");
  TORCH_CHECK(bias.dim() == 4 && (bias.size(0) == 1 || bias.size(0) == query_.batches) &&
                  bias.size(1) == p_.heads && bias.size(2) >= query_.tokens &&
                  bias.size(3) >= key_tokens_,
              "'pse_shift' has shape ", bias.sizes(), ", expected [1 or ", query_.batches, ", ",
              p_.heads, ", Q_S >= ", query_.tokens, ", KV_S >= ", key_tokens_, "]");
  p_.bias = {static_cast<uint16_t*>(bias.data_ptr()), bias.size(0) == 1 ? 0 : bias.stride(0),
             bias.stride(1), bias.stride(2)};
}

void Reader::read_sink() {
  const at::Tensor sink = in_.tensor("learnable_sink");
  if (!sink.defined()) {
    return;
  }
  TORCH_CHECK(layout_.packed && p_.value_dim <= 128,
              "'learnable_sink' is taken in layouts TND and "
              "NTD_TND with a value head size up to 128, not in ",
              layout_.input, " with ", p_.value_dim);
  check_plain(sink, p_.dtype, "learnable_sink");
  TORCH_CHECK(sink.dim() == 1 && sink.size(0) == p_.heads, "'learnable_sink' has shape ",
              sink.sizes(), ", expected [", p_.heads, "]");
  p_.sink = static_cast<const uint16_t*>(sink.data_ptr());
}

void Reader::read_outputs() {
  call_.out = in_.tensor("attention_out");
  check_plain(call_.out, p_.dtype, "attention_out");
  const Axes axes = axes_of(call_.out, layout_.output, p_.heads, "attention_out");
  TORCH_CHECK(
      axes.batches == query_.batches && axes.tokens == query_.tokens && axes.dim == p_.value_dim,
      "'attention_out' has shape ", call_.out.sizes(), ", expected ", layout_.output, " with ",
      query_.tokens, " tokens and head size ", p_.value_dim);
  p_.out = axes.rows;
  call_.lse = in_.tensor("softmax_lse");
  call_.wants_lse = in_.boolean(kWantsLse);
  if (!call_.wants_lse) {
    return;
  }
  const std::vector<int64_t> shape =
      layout_.packed ? std::vector<int64_t>{query_.tokens, p_.heads, 1}
                     : std::vector<int64_t>{query_.batches, p_.heads, query_.tokens, 1};
  TORCH_CHECK(call_.lse.defined() && call_.lse.sizes() == at::IntArrayRef(shape) &&
                  call_.lse.scalar_type() == at::kFloat && call_.lse.is_contiguous(),
              "'softmax_lse' is ", call_.lse.scalar_type(), call_.lse.sizes(),
              ", expected a contiguous float tensor ", at::IntArrayRef(shape));
  p_.lse = static_cast<float*>(call_.lse.data_ptr());
  p_.lse_batch = layout_.packed ? 0 : p_.heads * query_.tokens;
  p_.lse_head = layout_.packed ? 1 : query_.tokens;
  p_.lse_row = layout_.packed ? p_.heads : 1;
}

Call Reader::read() {
  refuse_unimplemented();
  read_query();
  read_keys();
  read_rope();
  check_sizes();
  read_lengths();
  read_padding();
  read_mask();
  read_bias();
  read_sink();
  read_outputs();
  return std::move(call_);
}

}  // namespace

Call read_call(const NamedInputs& in) { return Reader(in).read(); }

}  // namespace softnpu::ops::attention
