#pragma once
#include "base/deadline.hpp"

#include <csignal>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch {

/// A thread that nobody waits for, and that takes no signals: they are its process's main thread's.
template <class Work>
void start_detached(Work work) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(std::move(work)).detach();
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Begins to ask: for calls of the system that have no deadline of their own and cannot be
/// interrupted (the databases of users and of hosts, a file system). The thread stays with the
/// question, so it may refer to nothing that ends before the process.
template <class Question>
auto ask_beside(Question question) {
    using Answer = std::invoke_result_t<Question&>;
    std::promise<Answer> promise;
    auto answer = promise.get_future();
    start_detached([question = std::move(question), promise = std::move(promise)]() mutable {
        try {
            promise.set_value(question());
        } catch (...) {
            promise.set_exception(std::current_exception());
        }
    });
    return answer;
}

/// The answer, or nothing where that takes too long. What the question throws is thrown here.
template <class Answer>
std::optional<Answer> answer_in_time(std::future<Answer> answer, const Deadline& deadline) {
    if (answer.wait_until(deadline.at()) != std::future_status::ready)
        return std::nullopt;
    return answer.get();
}

/// Both for one question.
template <class Question>
auto ask_in_time(Question question, const Deadline& deadline) {
    return answer_in_time(ask_beside(std::move(question)), deadline);
}

/// The answers to a question of each, asked side by side: one that hangs takes no time of the
/// others.
template <class Item, class QuestionOf>
auto ask_all_in_time(const std::vector<Item>& items, QuestionOf question_of,
                     const Deadline& deadline) {
    using Answer = std::invoke_result_t<std::invoke_result_t<QuestionOf&, const Item&>&>;
    std::vector<std::future<Answer>> asked;
    for (const Item& item : items)
        asked.push_back(ask_beside(question_of(item)));
    std::vector<std::optional<Answer>> answers;
    for (auto& one : asked)
        answers.push_back(answer_in_time(std::move(one), deadline));
    return answers;
}

}  // namespace autolaunch
