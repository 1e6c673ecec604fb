// Textbook event-driven simulation of SQ(d) with exponential service: one std::priority_queue of arrivals and
// departures, std::mt19937_64, a vector of queue lengths. Same workload and statistics as sweep.simulate.
//
// Usage: heap_simulator N d lam horizon times levels seed
// Prints: arrivals, seconds of the event loop, S_1 ... S_levels at the horizon.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <random>
#include <vector>

struct Event {
    double time;
    std::int64_t server;  // -1: the next arrival
    bool operator>(const Event& other) const { return time > other.time; }
};

int main(int argc, char** argv) {
    if (argc != 8) {
        std::fprintf(stderr, "usage: heap_simulator N d lam horizon times levels seed\n");
        return 2;
    }
    const std::int64_t N = std::atoll(argv[1]);
    const int d = std::atoi(argv[2]);
    const double lam = std::atof(argv[3]), horizon = std::atof(argv[4]);
    const int times = std::atoi(argv[5]), levels = std::atoi(argv[6]);
    std::mt19937_64 random(std::strtoull(argv[7], nullptr, 10));
    std::exponential_distribution<double> gap(lam * static_cast<double>(N)), service(1.0);
    std::uniform_int_distribution<std::int64_t> server(0, N - 1);

    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events;
    std::vector<int> lengths(N, 0);
    std::vector<std::int64_t> tail(levels + 2, 0);  // queues of length at least l
    std::vector<double> S(static_cast<std::size_t>(times) * levels, 0.0);

    const auto started = std::chrono::steady_clock::now();
    std::int64_t arrivals = 0;
    int stored = 0;
    events.push({gap(random), -1});
    while (stored < times) {
        const Event event = events.top();
        events.pop();
        while (stored < times && horizon * stored / (times - 1) < event.time) {
            for (int level = 1; level <= levels; ++level)
                S[static_cast<std::size_t>(stored) * levels + level - 1] = static_cast<double>(tail[level]) / N;
            ++stored;
        }
        if (stored == times) break;
        if (event.server < 0) {
            std::int64_t best = server(random);
            for (int choice = 1; choice < d; ++choice) {
                const std::int64_t other = server(random);
                if (lengths[other] < lengths[best]) best = other;
            }
            const int length = ++lengths[best];
            if (length <= levels) ++tail[length];
            if (length == 1) events.push({event.time + service(random), best});
            ++arrivals;
            events.push({event.time + gap(random), -1});
        } else {
            const int length = lengths[event.server]--;
            if (length <= levels) --tail[length];
            if (length > 1) events.push({event.time + service(random), event.server});
        }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    std::printf("%lld %.6f", static_cast<long long>(arrivals), seconds.count());
    for (int level = 0; level < levels; ++level)
        std::printf(" %.6f", S[static_cast<std::size_t>(times - 1) * levels + level]);
    std::printf("\n");
    return 0;
}
