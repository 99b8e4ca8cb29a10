#include "comm/nccl/scale_kernels.hpp"

#include <fmt/format.h>

#include <array>

namespace autolaunch {
namespace {

// How one element comes into a register, is worked on, and goes back.
struct ElementCode {
    DataType type;
    const char* number;      // the type of the number it is scaled by
    const char* load;        // from [%address]
    const char* arithmetic;  // {} is div or mul, with its rounding
    const char* store;
};

constexpr char kLoadBf16[] =
    "ld.global.u16 %bits, [%address];\n"
    "    shl.b32 %bits, %bits, 16;\n"
    "    mov.b32 %f, %bits;";
// To nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
constexpr char kStoreBf16[] =
    "mov.b32 %bits, %f;\n"
    "    setp.nan.f32 %is_nan, %f, %f;\n"
    "    shr.u32 %upper, %bits, 16;\n"
    "    and.b32 %odd, %upper, 1;\n"
    "    add.u32 %bits, %bits, %odd;\n"
    "    add.u32 %bits, %bits, 32767;\n"
    "    shr.u32 %bits, %bits, 16;\n"
    "    or.b32 %upper, %upper, 64;\n"
    "    selp.b32 %bits, %upper, %bits, %is_nan;\n"
    "    st.global.u16 [%address], %bits;";

constexpr std::array<ElementCode, kDataTypes> kElements = {{
    {DataType::f32, "f32", "ld.global.f32 %f, [%address];", "{}.rn.f32 %f, %f, %number;",
     "st.global.f32 [%address], %f;"},
    {DataType::f64, "f64", "ld.global.f64 %d, [%address];", "{}.rn.f64 %d, %d, %number;",
     "st.global.f64 [%address], %d;"},
    {DataType::bf16, "f32", kLoadBf16, "{}.rn.f32 %f, %f, %number;", kStoreBf16},
    {DataType::f16, "f32", "ld.global.b16 %half, [%address];\n    cvt.f32.f16 %f, %half;",
     "{}.rn.f32 %f, %f, %number;",
     "cvt.rn.f16.f32 %half, %f;\n    st.global.b16 [%address], %half;"},
    {DataType::i8, "s64", "ld.global.s8 %n, [%address];", "{}.s64 %n, %n, %number;",
     "st.global.s8 [%address], %n;"},
    {DataType::i32, "s64", "ld.global.s32 %n, [%address];", "{}.s64 %n, %n, %number;",
     "st.global.s32 [%address], %n;"},
    {DataType::i64, "s64", "ld.global.s64 %n, [%address];", "{}.s64 %n, %n, %number;",
     "st.global.s64 [%address], %n;"},
    {DataType::u8, "u64", "ld.global.u8 %n, [%address];", "{}.u64 %n, %n, %number;",
     "st.global.u8 [%address], %n;"},
    {DataType::u32, "u64", "ld.global.u32 %n, [%address];", "{}.u64 %n, %n, %number;",
     "st.global.u32 [%address], %n;"},
    {DataType::u64, "u64", "ld.global.u64 %n, [%address];", "{}.u64 %n, %n, %number;",
     "st.global.u64 [%address], %n;"},
}};

// Each thread takes every (threads in the grid)-th element, so that neighbours read neighbours.
constexpr char kKernel[] = R"(
.visible .entry {name}(.param .u64 data, .param .u64 count, .param .{number} factor) {{
    .reg .pred %at_end, %is_nan;
    .reg .b16 %half;
    .reg .b32 %block, %threads, %thread, %blocks, %bits, %upper, %odd;
    .reg .b64 %data, %count, %index, %stride, %address, %wide, %n;
    .reg .f32 %f;
    .reg .f64 %d;
    .reg .{number} %number;
    ld.param.u64 %data, [data];
    ld.param.u64 %count, [count];
    ld.param.{number} %number, [factor];
    cvta.to.global.u64 %data, %data;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %index, %block, %threads;
    cvt.u64.u32 %wide, %thread;
    add.u64 %index, %index, %wide;
    mul.wide.u32 %stride, %blocks, %threads;
next:
    setp.ge.u64 %at_end, %index, %count;
    @%at_end bra end;
    mad.lo.u64 %address, %index, {size}, %data;
    {load}
    {arithmetic}
    {store}
    add.u64 %index, %index, %stride;
    bra next;
end:
    ret;
}}
)";

std::string instruction(Scaling scaling, DataType type) {
    const bool real = type == DataType::f32 || type == DataType::f64 || type == DataType::bf16 ||
                      type == DataType::f16;
    if (scaling == Scaling::divide)
        return "div";
    return real ? "mul" : "mul.lo";
}

}  // namespace

std::string scale_kernel_name(Scaling scaling, DataType type) {
    return fmt::format("{}_{}", scaling == Scaling::divide ? "divide" : "multiply", name_of(type));
}

std::string scale_kernels_ptx() {
    std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n";
    for (const Scaling scaling : {Scaling::divide, Scaling::multiply}) {
        for (const ElementCode& element : kElements) {
            text +=
                fmt::format(kKernel, fmt::arg("name", scale_kernel_name(scaling, element.type)),
                            fmt::arg("number", element.number),
                            fmt::arg("size", size_of(element.type)), fmt::arg("load", element.load),
                            fmt::arg("arithmetic", fmt::format(fmt::runtime(element.arithmetic),
                                                               instruction(scaling, element.type))),
                            fmt::arg("store", element.store));
        }
    }
    return text;
}

}  // namespace autolaunch
