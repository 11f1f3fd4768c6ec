#include "cluster/client/loop.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "cluster/client/asio.hpp"
#include "cluster/client/loop_context.hpp"

namespace zaris::client {

std::shared_ptr<Loop> Loop::create() {
  auto context = std::make_shared<LoopContext>(nullptr);
  context->own_io.emplace(1);
  context->work.emplace(context->own_io->get_executor());
  // The thread keeps the context: a Loop that is destroyed by one of its own callbacks leaves it running to its end.
  context->thread = std::thread([context] {
    context->own_io->run();
    // Completions of what was closed just now still hold their connections.
    context->own_io->restart();
    while (context->own_io->poll() > 0) {}
  });
  pthread_setname_np(context->thread.native_handle(), "zaris-client");
  return std::make_shared<Loop>(std::move(context));
}

Loop::Loop(std::shared_ptr<LoopContext> context) : context_(std::move(context)) {}

Loop::~Loop() {
  if (!context_->own_io) return;
  // There is work until this has run: behind a loop that has run out of it, it would stay queued for ever and hold the context,
  // which holds the queue.
  const auto end = [context = context_] {
    context->work.reset();
    context->end_users();
    context->ended = true;
    context->own_io->stop();
  };
  if (context_->thread.get_id() == std::this_thread::get_id()) {
    end();
    context_->thread.detach();
  } else {
    boost::asio::post(*context_->own_io, end);
    context_->thread.join();
  }
}

void Loop::post(std::function<void()> work) { boost::asio::post(context_->io(), std::move(work)); }

namespace {

// A timer that runs its work early when the loop ends, so that whoever waits behind it is told.
struct Timer : EndsWithLoop, std::enable_shared_from_this<Timer> {
  Timer(LoopContext& on, std::chrono::milliseconds delay, std::function<void()> what)
      : context(on), timer(on.io(), delay), work(std::move(what)) {}
  void start() {
    if (context.own_io) context.users.insert(this);
    timer.async_wait([self = shared_from_this()](boost::system::error_code) { self->fire(); });
  }
  void fire() {
    if (context.own_io) context.users.erase(this);
    if (const auto once = std::exchange(work, nullptr)) once();
  }
  void end() override {
    const auto self = shared_from_this();
    timer.cancel();
    fire();
  }
  LoopContext& context;
  boost::asio::steady_timer timer;
  std::function<void()> work;
};

}  // namespace

void Loop::after(std::chrono::milliseconds delay, std::function<void()> work) {
  auto timer = std::make_shared<Timer>(*context_, delay, std::move(work));
  post([timer] { timer->start(); });
}

bool Loop::on_thread() const { return context_->io().get_executor().running_in_this_thread(); }

std::shared_ptr<Loop> loop_on(boost::asio::io_context& io) {
  return std::make_shared<Loop>(std::make_shared<LoopContext>(&io));
}

}  // namespace zaris::client
