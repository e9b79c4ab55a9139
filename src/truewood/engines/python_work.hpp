// Work without the interpreter's lock, which lets Python run its handlers of signals, and ends before the interpreter.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace truewood {

namespace py = pybind11;

// A thread that asks for the GIL when the interpreter has ended is ended by Python, and C++ then ends the process with
// an error. So the interpreter waits for threads that are at work here, and they stop at the next pause.
inline std::atomic<bool> is_ending{false};
inline std::atomic<int> n_working{0};
inline std::thread::id last_thread;  // the one that ends the interpreter may work on

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
        // Counts before it asks: without a GIL, the interpreter may begin to end between the two.
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

// Lets Python run its handlers of signals, so that Ctrl-C ends long work; called without the GIL.
inline void run_signal_handlers() {
    stop_if_ending();
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace truewood
