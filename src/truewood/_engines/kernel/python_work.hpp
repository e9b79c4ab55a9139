// Work without the GIL, which still lets Python run signal handlers, and which ends before the interpreter does.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace truewood {

namespace py = pybind11;

// Python ends a thread that asks for the GIL after the interpreter has shut down, and C++ then aborts the process. So
// the interpreter waits for threads at work here, and they stop at their next pause.
inline std::atomic<bool> is_ending{false};
inline std::atomic<int> n_working{0};
inline std::thread::id last_thread;  // the thread that shuts the interpreter down may go on working

inline void stop_if_ending() {
    if (is_ending && std::this_thread::get_id() != last_thread) throw std::runtime_error("the interpreter is ending.");
}

inline void wait_for_threads() {
    last_thread = std::this_thread::get_id();
    is_ending = true;
    py::gil_scoped_release release;
    while (n_working > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Work without the GIL.
class Work {
    struct Count {
        // Counts before it checks: without a GIL, the interpreter may begin to shut down between the two.
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
    py::gil_scoped_release release_;  // begins last and ends first
};

// Lets Python run signal handlers, so that Ctrl-C stops long work; called without the GIL.
inline void run_signal_handlers() {
    stop_if_ending();
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace truewood
