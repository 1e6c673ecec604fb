// Textbook event-driven simulation of SQ(d) with exponential service: one std::priority_queue of arrivals and
// departures, std::mt19937_64. Same workload and statistics as sweep.simulate.
//
// A service time belongs to a job, so the textbook simulator keeps a queue of jobs a server and draws the time at
// the arrival: compile with -DJOBS for that. Lengths suffice where the time is drawn as service begins, which is
// the same in law, uses less memory and is faster: that one is the default, so that no ratio flatters us.
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
#ifdef JOBS
    std::vector<std::queue<double>> queues(N);  // service times of the jobs present
    const auto length_of = [&](std::int64_t i) { return static_cast<int>(queues[i].size()); };
#else
    std::vector<int> lengths(N, 0);
    const auto length_of = [&](std::int64_t i) { return lengths[i]; };
#endif
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
                if (length_of(other) < length_of(best)) best = other;
            }
#ifdef JOBS
            queues[best].push(service(random));
            const int length = length_of(best);
            if (length == 1) events.push({event.time + queues[best].front(), best});
#else
            const int length = ++lengths[best];
            if (length == 1) events.push({event.time + service(random), best});
#endif
            if (length <= levels) ++tail[length];
            ++arrivals;
            events.push({event.time + gap(random), -1});
        } else {
#ifdef JOBS
            const int length = length_of(event.server);
            queues[event.server].pop();
            if (length > 1) events.push({event.time + queues[event.server].front(), event.server});
#else
            const int length = lengths[event.server]--;
            if (length > 1) events.push({event.time + service(random), event.server});
#endif
            if (length <= levels) --tail[length];
        }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    std::printf("%lld %.6f", static_cast<long long>(arrivals), seconds.count());
    for (int level = 0; level < levels; ++level)
        std::printf(" %.6f", S[static_cast<std::size_t>(times - 1) * levels + level]);
    std::printf("\n");
    return 0;
}
