// Arrays passed from Python, checked and kept alive. They are never converted: a converted copy would be freed before
// the kernel reads it, and output written to it would be lost.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace truewood {

namespace py = pybind11;

// Lengths of the axes of an array; kAny accepts any length.
constexpr std::size_t kAny = ~std::size_t{0};
using Shape = std::vector<std::size_t>;

// "X must ..., got ...".
inline std::string describe_mismatch(const std::string& name, const std::string& expected, const std::string& got) {
    return name + " must " + expected + ", got " + got + ".";
}

inline std::string describe_shape(const Shape& shape) {
    std::string words;
    for (const std::size_t side : shape) {
        words += (words.empty() ? "" : ", ") + (side == kAny ? std::string("n") : std::to_string(side));
    }
    return "(" + words + (shape.size() == 1 ? ",)" : ")");
}

inline std::string describe_type(const py::handle& given) {
    if (!py::isinstance<py::array>(given)) return py::cast<std::string>(py::type::of(given).attr("__name__"));
    return "an array of " + py::cast<std::string>(py::str(given.attr("dtype")));
}

inline bool has_flag(const py::array& array, int flag) { return (array.flags() & flag) == flag; }

// An array passed from Python; `data` is null for None.
template <class T>
struct View {
    T* data = nullptr;
    Shape shape;
    py::object held;

    std::size_t size() const {
        std::size_t size = 1;
        for (const std::size_t side : shape) size *= side;
        return size;
    }
    explicit operator bool() const { return data != nullptr; }
};

// Whether an array has numbers of type T in native byte order.
template <class T>
bool has_type(const py::handle& given) {
    return py::isinstance<py::array_t<T>>(given);
}

// Checks for an aligned, C-contiguous array of type T and of the given shape.
template <class T>
View<const T> read_array(const std::string& name, const py::handle& given, const Shape& shape) {
    const auto expected = [&shape] {
        const auto type = py::cast<std::string>(py::str(py::dtype::of<T>()));
        return "be a C-contiguous array of " + type + " of shape " + describe_shape(shape);
    };
    if (!has_type<T>(given)) throw py::type_error(describe_mismatch(name, expected(), describe_type(given)));
    auto array = py::reinterpret_borrow<py::array>(given);
    const Shape sides(array.shape(), array.shape() + array.ndim());
    bool fits = sides.size() == shape.size();
    for (std::size_t k = 0; fits && k < shape.size(); ++k) fits = shape[k] == kAny || sides[k] == shape[k];
    if (!fits) throw py::value_error(describe_mismatch(name, expected(), "shape " + describe_shape(sides)));
    if (!has_flag(array, py::array::c_style)) {
        throw py::value_error(describe_mismatch(name, expected(), "an array that is not C-contiguous"));
    }
    if (!has_flag(array, py::detail::npy_api::NPY_ARRAY_ALIGNED_)) {
        throw py::value_error(describe_mismatch(name, expected(), "an array that is not aligned"));
    }
    return {static_cast<const T*>(array.data()), sides, std::move(array)};
}

template <class T>
View<const T> read_optional(const std::string& name, const py::handle& given, const Shape& shape) {
    if (given.is_none()) return {};
    return read_array<T>(name, given, shape);
}

// Checks for a writable array as well.
template <class T>
View<T> write_array(const std::string& name, const py::handle& given, const Shape& shape) {
    auto read = read_array<T>(name, given, shape);
    if (!py::reinterpret_borrow<py::array>(read.held).writeable())
        throw py::value_error(describe_mismatch(name, "be writable", "a read-only array"));
    return {const_cast<T*>(read.data), std::move(read.shape), std::move(read.held)};
}

template <class T>
View<T> write_optional(const std::string& name, const py::handle& given, const Shape& shape) {
    if (given.is_none()) return {};
    return write_array<T>(name, given, shape);
}

// Numbers that the kernel uses as positions are checked once per call. These checks do not need the GIL.

// Rejects numbers outside 0 .. end - 1; the numbers are `stride` apart.
template <class T>
void check_below(const std::string& name, const T* numbers, std::size_t n, std::size_t end, std::size_t stride = 1) {
    bool is_outside = false;  // no branch, so that this loop vectorizes
    for (std::size_t k = 0; k < n; ++k) is_outside |= static_cast<std::size_t>(numbers[k * stride]) >= end;
    for (std::size_t k = 0; is_outside && k < n; ++k) {
        const T number = numbers[k * stride];
        if (static_cast<std::size_t>(number) < end) continue;
        const std::string expected = "hold numbers from 0 to " + std::to_string(end) + ", exclusive";
        throw std::invalid_argument(
            describe_mismatch(name, expected, std::to_string(number) + " at " + std::to_string(k)));
    }
}

// Rejects bounds that do not ascend from 0 to `end`, or to any number if `end` is kAny, by at least `step`.
inline void check_bounds(const std::string& name, const View<const std::int64_t>& bounds, std::size_t end,
                         std::int64_t step = 0) {
    const std::size_t n = bounds.size();
    const std::int64_t most = end == kAny ? std::int64_t{1} << 62 : static_cast<std::int64_t>(end);
    const std::string expected = "ascend from 0" + (end == kAny ? "" : " to " + std::to_string(end));
    if (n == 0) throw std::invalid_argument(describe_mismatch(name, expected, "no numbers"));
    std::int64_t least = 0;
    for (std::size_t k = 0; k < n; ++k) {
        const std::int64_t bound = bounds.data[k];
        const bool is_first = k == 0, is_last = k + 1 == n && end != kAny;
        if (bound < least || bound > most || (is_first && bound != 0) || (is_last && bound != most)) {
            throw std::invalid_argument(
                describe_mismatch(name, expected, std::to_string(bound) + " at " + std::to_string(k)));
        }
        least = bound + step;
    }
}

}  // namespace truewood
