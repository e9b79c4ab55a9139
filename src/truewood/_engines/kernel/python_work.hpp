// Work without the GIL that still lets Python run signal handlers and that ends before the interpreter does.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace truewood {

namespace py = pybind11;

// After the interpreter has shut down, Python ends any thread that requests the GIL, and C++ then aborts the process.
// Therefore the interpreter waits for threads that work here, and they stop at their next pause.
inline std::atomic<bool> is_ending{false};
inline std::atomic<int> n_working{0};
inline std::thread::id last_thread;  // the thread that shuts down the interpreter may continue to work

inline void stop_if_ending() {
    if (is_ending && std::this_thread::get_id() != last_thread)
        throw std::runtime_error("the interpreter is shutting down.");
}

inline void wait_for_threads() {
    last_thread = std::this_thread::get_id();
    is_ending = true;
    py::gil_scoped_release release;
    while (n_working > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Releases the GIL during its lifetime.
class Work {
    struct Count {
        // Count before checking: without a GIL, the interpreter may start to shut down in between.
        Count() {
            ++n_working;
            try {
                stop_if_ending();
            } catch (...) {
                --n_working;
                throw;
            }
        }
        ~Count() { --n_working; }
    };
    Count count_;
    py::gil_scoped_release release_;  // constructed last and destroyed first
};

// Lets Python run signal handlers so that Ctrl-C stops long work; called without the GIL.
inline void run_signal_handlers() {
    stop_if_ending();
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace truewood
