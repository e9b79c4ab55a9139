// Work on several threads, with results that do not depend on the number of threads. No Python here.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace truewood {

// Calls `pause` regularly during long work. If it throws, the output is incomplete.
class InterruptPoller {
public:
    explicit InterruptPoller(std::function<void()> pause) : pause_(std::move(pause)) {}
    // Counts steps of work.
    void count(std::int64_t n_steps) {
        n_steps_ += n_steps;
        if (n_steps_ < kStepsBetween) return;
        n_steps_ = 0;
        pause_();
    }
    // Calls `pause` now, for a thread that waits.
    void pause() { pause_(); }

private:
    static constexpr std::int64_t kStepsBetween = 1 << 22;  // a few hundredths of a second
    std::function<void()> pause_;
    std::int64_t n_steps_ = 0;
};

// A team of threads that includes the calling one. Only the calling thread runs `pause`. If any thread throws, all stop
// at their next pause, and the calling thread rethrows the first error.
class ThreadTeam {
public:
    static constexpr std::size_t kMostThreads = 1024;  // each allocates memory of its own

    ThreadTeam(std::size_t n_threads, std::function<void()> pause)
        : n_threads_(std::min(std::max<std::size_t>(n_threads, 1), kMostThreads)), pause_(std::move(pause)) {}

    std::size_t n_threads() const { return n_threads_; }

    // Runs body(worker, item, poller) for the items 0 .. n_items - 1, started in this order. Workers have numbers below
    // n_threads(), so that each can keep its own data from item to item.
    template <class Body>
    void run(std::size_t n_items, const Body& body) {
        std::atomic<std::size_t> next{0};
        is_broken_ = false;
        error_ = nullptr;
        const auto work = [&](std::size_t worker) {
            InterruptPoller poller([this, worker] {
                if (is_broken_) throw Stopped();
                if (worker == 0) pause_();
            });
            try {
                for (std::size_t item = next++; item < n_items && !is_broken_; item = next++)
                    body(worker, item, poller);
            } catch (...) {
                const std::lock_guard<std::mutex> lock(mutex_);
                if (!is_broken_) error_ = std::current_exception();
                is_broken_ = true;
            }
        };
        const Joined others(std::min(n_threads_, n_items), work);
        work(0);
        others.join();
        if (error_) std::rethrow_exception(error_);
    }

private:
    struct Stopped {};

    class Joined {
    public:
        template <class Work>
        Joined(std::size_t n_threads, const Work& work) {
            try {
                for (std::size_t worker = 1; worker < n_threads; ++worker) threads_.emplace_back(work, worker);
            } catch (const std::system_error&) {
                // The system cannot start more threads: the existing ones do all the work.
            }
        }
        ~Joined() { join(); }
        void join() const {
            for (auto& thread : threads_) {
                if (thread.joinable()) thread.join();
            }
        }

    private:
        mutable std::vector<std::thread> threads_;
    };

    std::size_t n_threads_;
    std::function<void()> pause_;
    std::mutex mutex_;
    std::atomic<bool> is_broken_{false};
    std::exception_ptr error_;
};

// Processes the parts of items in the order of the items, whatever the order in which they become ready.
template <class Part>
class InOrder {
public:
    // Parts per thread that may wait for earlier ones.
    static constexpr std::size_t kMostWaiting = 4;

    explicit InOrder(std::size_t n_threads) : most_waiting_(kMostWaiting * n_threads) {}

    // Calls take(part) for the part of an item, now or when its turn comes; leaves a part to reuse in `part`.
    template <class Take>
    void add(std::size_t item, Part& part, InterruptPoller& poller, const Take& take) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (item != next_ && waiting_.size() >= most_waiting_) {
            changed_.wait_for(lock, std::chrono::milliseconds(20));
            lock.unlock();
            poller.pause();  // throws if an earlier item has failed
            lock.lock();
        }
        if (item != next_) {
            std::swap(waiting_[item], part);
            if (!free_.empty()) {
                std::swap(part, free_.back());
                free_.pop_back();
            }
            return;
        }
        take(part);
        ++next_;
        for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;) {
            take(first->second);
            ++next_;
            free_.push_back(std::move(first->second));
            first = waiting_.erase(first);
        }
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::size_t, Part> waiting_;
    std::vector<Part> free_;
    std::size_t most_waiting_, next_ = 0;
};

// Adds the arrays of items in the order of the items.
class OrderedSum {
public:
    static constexpr std::size_t kMostWaiting = InOrder<std::vector<double>>::kMostWaiting;

    OrderedSum(std::size_t size, std::size_t n_threads) : total_(size, 0.0), in_order_(n_threads) {}

    // Adds the sums of an item; leaves an array to reuse in `sums`.
    void add(std::size_t item, std::vector<double>& sums, InterruptPoller& poller) {
        in_order_.add(item, sums, poller, [this](const std::vector<double>& own) {
            for (std::size_t k = 0; k < total_.size(); ++k) total_[k] += own[k];
        });
    }
    const std::vector<double>& total() const { return total_; }

private:
    std::vector<double> total_;
    InOrder<std::vector<double>> in_order_;
};

}  // namespace truewood
