#include "bespoke/io/jpeg.h"

#include <torch/torch.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>

// After <cstdio>, which they need and do not include.
#include <jerror.h>
#include <jpeglib.h>

#include "bespoke/base/error.h"
#include "bespoke/io/decode_limit.h"

namespace bespoke {

using namespace detail;

namespace {

// A block of 8 x 8 takes at least one bit of Huffman code.
constexpr uint64_t kMostPixelsPerByte = 512;

// What libjpeg works on. It leaves a failed call by longjmp, which skips destructors; so all that
// owns memory is held here, outside the calls, and freed as always.
struct Decoder {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf exit;
  char message[JMSG_LENGTH_MAX] = "";

  const std::string& bytes;
  torch::Tensor pixels;  // [height, width, channels]

  explicit Decoder(const std::string& file) : bytes(file) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};

// The callbacks below are called by C code: no exception may leave them.

[[noreturn]] void on_error(j_common_ptr jpeg) {
  Decoder& decoder = *static_cast<Decoder*>(jpeg->client_data);
  (*jpeg->err->format_message)(jpeg, decoder.message);
  std::longjmp(decoder.exit, 1);
}

bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
}

// A level of -1 is a warning: data is missing or wrong, and libjpeg would make some up.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !is_harmless(jpeg->err->msg_code)) on_error(jpeg);
}

// Runs one piece of libjpeg work; false if libjpeg gave up, with its message in the decoder. The
// work is left by longjmp, so it may hold nothing that has a destructor.
bool succeeds(Decoder& decoder, void (*work)(Decoder&)) {
  if (setjmp(decoder.exit) != 0) return false;
  work(decoder);
  return true;
}

void read_header(Decoder& decoder) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(decoder.bytes.data()),
               decoder.bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  const J_COLOR_SPACE stored = jpeg.jpeg_color_space;
  const bool four = stored == JCS_CMYK || stored == JCS_YCCK;
  jpeg.out_color_space = stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  jpeg_calc_output_dimensions(&jpeg);
}

void read_pixels(Decoder& decoder) {
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg_start_decompress(&jpeg);
  const size_t row_size = size_t{jpeg.output_width} * static_cast<size_t>(jpeg.output_components);
  const auto base = static_cast<JSAMPROW>(decoder.pixels.data_ptr());
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = base + jpeg.output_scanline * row_size;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
}

void open(Decoder& decoder) {
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.jpeg.client_data = &decoder;
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
}

bool size_fits_content(const Decoder& decoder) {
  const uint64_t pixels = uint64_t{decoder.jpeg.output_width} * decoder.jpeg.output_height;
  // Arithmetic coding can do with less than a bit for a block.
  return decoder.jpeg.arith_code || pixels / kMostPixelsPerByte <= decoder.bytes.size();
}

// [height, width, 4] inks as RGB, without a colour profile; Adobe's programs store them inverted.
torch::Tensor rgb_from_cmyk(const torch::Tensor& inks, bool inverted) {
  const torch::Tensor light = (inverted ? inks : 255 - inks).to(torch::kInt);
  const torch::Tensor product = light.narrow(2, 0, 3) * light.narrow(2, 3, 1);
  return torch::floor_divide(product + 127, 255).to(torch::kByte);
}

Error broken(const std::string& source, const char* why) {
  return bad_input("{}: broken JPEG ({}); make the file again", source, why);
}

}  // namespace

torch::Tensor decode_jpeg(const std::string& bytes, const std::string& source) {
  if (bytes.compare(0, 2, "\xff\xd8") != 0) {
    throw bad_input("{}: not a JPEG file; convert the image to JPEG or PNG", source);
  }
  Decoder decoder(bytes);
  open(decoder);
  if (!succeeds(decoder, read_header)) throw broken(source, decoder.message);
  if (!size_fits_content(decoder)) throw broken(source, "its size does not fit its content");
  check_decoded_size(uint64_t{decoder.jpeg.output_height} * decoder.jpeg.output_width *
                         static_cast<uint64_t>(decoder.jpeg.output_components),
                     source);
  decoder.pixels = torch::empty(
      {decoder.jpeg.output_height, decoder.jpeg.output_width, decoder.jpeg.output_components},
      torch::kByte);
  if (!succeeds(decoder, read_pixels)) throw broken(source, decoder.message);
  if (decoder.jpeg.out_color_space == JCS_CMYK) {
    decoder.pixels = rgb_from_cmyk(decoder.pixels, decoder.jpeg.saw_Adobe_marker);
  }
  return decoder.pixels.permute({2, 0, 1}).contiguous();
}

}  // namespace bespoke
