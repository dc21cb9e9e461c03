// Scenario B1 in ns-3: many TCP on-off sources over one bottleneck.
//
//   ./b1 --sources=500 --seconds=100 ...
//
// Every option below has to be given; bench_sim.py takes the values from benchmarks/b1/b1.toml.
// The last line of output is one JSON object. Times are seconds, rates bit/s, sizes bytes.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/ipv4-nix-vector-helper.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// The options, named as for ns-2.
struct Parameters
{
    uint32_t sources = 0;
    double seconds = 0;
    uint32_t seed = 0;
    double access_bps = 0;
    double bottleneck_bps = 0;
    double sender_delay_s = 0;
    double bottleneck_delay_s = 0;
    double receiver_delay_s = 0;
    std::string discipline;
    uint32_t limit_packets = 0;
    uint32_t access_limit_packets = 0;
    double red_min = 0;
    double red_max = 0;
    double red_weight = 0;
    double red_max_p = 0;
    bool red_gentle = false;
    bool red_wait = false;
    uint32_t segment_bytes = 0;
    uint32_t header_bytes = 0;
    uint32_t ack_bytes = 0;
    uint32_t burst_packets = 0;
    double idle_mean_s = 0;
    uint32_t initial_window = 0;
    double min_rto_s = 0;
    double initial_rto_s = 0;
    double sample_hz = 0;
};

/// Connections are set up before this time; bursts and measurement start then.
constexpr double WARM_UP_S = 0.5;

/// Bytes that PPP adds to a packet; rates are scaled so that they are those of IP packets.
constexpr uint32_t PPP_BYTES = 2;

/// NewReno whose window can be set back: every burst starts as a new connection would.
class FreshNewReno : public TcpNewReno
{
  public:
    void Init(Ptr<TcpSocketState> state) override
    {
        m_state = state;
    }

    void StartAfresh()
    {
        m_state->m_cWnd = m_state->m_initialCWnd * m_state->m_segmentSize;
        m_state->m_cWndInfl = m_state->m_cWnd;
        m_state->m_ssThresh = m_state->m_initialSsThresh;
    }

  private:
    Ptr<TcpSocketState> m_state;
};

/// Bursts of one connection, with idle times between them.
class OnOffSource
{
  public:
    OnOffSource(const Parameters& p, Ptr<Node> node, Ptr<ExponentialRandomVariable> idle)
        : m_burst_bytes(p.burst_packets * p.segment_bytes),
          m_idle(idle),
          m_control(CreateObject<FreshNewReno>())
    {
        m_socket = DynamicCast<TcpSocketBase>(
            Socket::CreateSocket(node, TcpSocketFactory::GetTypeId()));
        m_socket->SetCongestionControlAlgorithm(m_control);
        m_socket->SetSendCallback(MakeCallback(&OnOffSource::BufferFreed, this));
    }

    void Connect(const InetSocketAddress& to)
    {
        m_socket->Connect(to);
    }

    void StartBurst()
    {
        m_started = Simulator::Now();
        m_empty = m_socket->GetTxAvailable();
        m_running = true;
        m_control->StartAfresh();
        m_socket->Send(Create<Packet>(m_burst_bytes), 0);
    }

    uint64_t BytesAcked() const
    {
        return uint64_t{m_bursts} * m_burst_bytes +
               (m_running ? m_burst_bytes - (m_empty - m_socket->GetTxAvailable()) : 0);
    }

    uint32_t Bursts() const
    {
        return m_bursts;
    }

    double CompletionTotal() const
    {
        return m_completion_total;
    }

  private:
    void BufferFreed(Ptr<Socket>, uint32_t available)
    {
        if (!m_running || available < m_empty)
        {
            return;
        }
        m_running = false;
        ++m_bursts;
        m_completion_total += (Simulator::Now() - m_started).GetSeconds();
        Simulator::Schedule(Seconds(m_idle->GetValue()), &OnOffSource::StartBurst, this);
    }

    uint32_t m_burst_bytes;
    Ptr<ExponentialRandomVariable> m_idle;
    Ptr<FreshNewReno> m_control;
    Ptr<TcpSocketBase> m_socket;
    Time m_started;
    uint32_t m_empty = 0; //!< Space in the empty send buffer.
    bool m_running = false;
    uint32_t m_bursts = 0;
    double m_completion_total = 0;
};

/// Reads and forgets what arrives.
void
Drain(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv())
    {
        if (packet->GetSize() == 0)
        {
            break;
        }
    }
}

void
Accept(Ptr<Socket> socket, const Address&)
{
    socket->SetRecvCallback(MakeCallback(&Drain));
}

/// A link without a queue discipline: drop tail at the device.
NetDeviceContainer
DropTailLink(Ptr<Node> a, Ptr<Node> b, double bps, double delay_s, uint32_t limit_packets)
{
    PointToPointHelper link;
    link.DisableFlowControl();
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(bps))));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delay_s)));
    link.SetQueue("ns3::DropTailQueue<Packet>",
                  "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, limit_packets)));
    return link.Install(a, b);
}

/// Addresses by hand: Ipv4AddressHelper would install a default queue discipline.
void
AddAddress(Ptr<NetDevice> device, Ipv4Address address)
{
    Ptr<Ipv4> ipv4 = device->GetNode()->GetObject<Ipv4>();
    uint32_t interface = ipv4->AddInterface(device);
    ipv4->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask("255.255.255.252")));
    ipv4->SetUp(interface);
}

/// Numbers a link and returns the second end's address.
Ipv4Address
AddSubnet(const NetDeviceContainer& link, uint32_t number)
{
    const uint32_t base = Ipv4Address("10.0.0.0").Get() + 4 * number;
    AddAddress(link.Get(0), Ipv4Address(base + 1));
    AddAddress(link.Get(1), Ipv4Address(base + 2));
    return Ipv4Address(base + 2);
}

void
RequireAll(int argc, char* argv[], const std::vector<std::string>& names)
{
    for (const auto& name : names)
    {
        bool given = false;
        for (int i = 1; i < argc; ++i)
        {
            given = given || std::string(argv[i]).rfind("--" + name + "=", 0) == 0;
        }
        if (!given)
        {
            std::fprintf(stderr, "b1: no value for %s\n", name.c_str());
            std::exit(2);
        }
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    const auto started = std::chrono::steady_clock::now();
    Parameters p;
    std::vector<std::string> names;
    CommandLine command(__FILE__);
    auto option = [&](const std::string& name, auto& value) {
        command.AddValue(name, "see benchmarks/b1/b1.toml", value);
        names.push_back(name);
    };
    option("sources", p.sources);
    option("seconds", p.seconds);
    option("seed", p.seed);
    option("access_bps", p.access_bps);
    option("bottleneck_bps", p.bottleneck_bps);
    option("sender_delay_s", p.sender_delay_s);
    option("bottleneck_delay_s", p.bottleneck_delay_s);
    option("receiver_delay_s", p.receiver_delay_s);
    option("discipline", p.discipline);
    option("limit_packets", p.limit_packets);
    option("access_limit_packets", p.access_limit_packets);
    option("red_min", p.red_min);
    option("red_max", p.red_max);
    option("red_weight", p.red_weight);
    option("red_max_p", p.red_max_p);
    option("red_gentle", p.red_gentle);
    option("red_wait", p.red_wait);
    option("segment_bytes", p.segment_bytes);
    option("header_bytes", p.header_bytes);
    option("ack_bytes", p.ack_bytes);
    option("burst_packets", p.burst_packets);
    option("idle_mean_s", p.idle_mean_s);
    option("initial_window", p.initial_window);
    option("min_rto_s", p.min_rto_s);
    option("initial_rto_s", p.initial_rto_s);
    option("sample_hz", p.sample_hz);
    RequireAll(argc, argv, names);
    command.Parse(argc, argv);
    const bool red = p.discipline == "RED";
    const uint32_t packet_bytes = p.segment_bytes + p.header_bytes;
    NS_ABORT_MSG_IF(p.header_bytes != 40 || p.ack_bytes != 40,
                    "ns-3's headers without options are 40 bytes");

    RngSeedManager::SetSeed(p.seed);
    const uint32_t buffer_bytes = 4 * p.burst_packets * p.segment_bytes;
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(p.segment_bytes));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer_bytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer_bytes));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(p.initial_window));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(p.min_rto_s)));
    Config::SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(Seconds(p.initial_rto_s)));
    // One address for each interface: no need to look at all five hundred for every packet.
    Config::SetDefault("ns3::Ipv4::WeakEsModel", BooleanValue(false));

    NodeContainer routers(2);
    NodeContainer senders(p.sources);
    NodeContainer receivers(p.sources);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.SetRoutingHelper(Ipv4NixVectorHelper());
    stack.InstallAll();

    const double ppp = double(packet_bytes + PPP_BYTES) / packet_bytes;
    NetDeviceContainer bottleneck;
    Ptr<QueueDisc> discipline;
    if (red)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute(
            "DataRate",
            DataRateValue(DataRate(static_cast<uint64_t>(p.bottleneck_bps * ppp))));
        link.SetChannelAttribute("Delay", TimeValue(Seconds(p.bottleneck_delay_s)));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
        bottleneck = link.Install(routers.Get(0), routers.Get(1));
        TrafficControlHelper traffic_control;
        traffic_control.SetRootQueueDisc(
            "ns3::RedQueueDisc",
            "MaxSize",
            QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, p.limit_packets)),
            "MinTh",
            DoubleValue(p.red_min),
            "MaxTh",
            DoubleValue(p.red_max),
            "QW",
            DoubleValue(p.red_weight),
            "LInterm",
            DoubleValue(1 / p.red_max_p),
            "Gentle",
            BooleanValue(p.red_gentle),
            "Wait",
            BooleanValue(p.red_wait),
            "MeanPktSize",
            UintegerValue(packet_bytes),
            "LinkBandwidth",
            DataRateValue(DataRate(static_cast<uint64_t>(p.bottleneck_bps))),
            "LinkDelay",
            TimeValue(Seconds(p.bottleneck_delay_s)));
        discipline = traffic_control.Install(bottleneck.Get(0)).Get(0);
    }
    else
    {
        bottleneck = DropTailLink(routers.Get(0),
                                  routers.Get(1),
                                  p.bottleneck_bps * ppp,
                                  p.bottleneck_delay_s,
                                  p.limit_packets);
    }
    AddSubnet(bottleneck, 0);
    Ptr<Queue<Packet>> queue = DynamicCast<PointToPointNetDevice>(bottleneck.Get(0))->GetQueue();

    Ptr<ExponentialRandomVariable> idle = CreateObject<ExponentialRandomVariable>();
    idle->SetAttribute("Mean", DoubleValue(p.idle_mean_s));

    constexpr uint16_t PORT = 5000;
    std::vector<std::unique_ptr<OnOffSource>> sources;
    std::vector<Ptr<Socket>> listeners;
    for (uint32_t i = 0; i < p.sources; ++i)
    {
        AddSubnet(DropTailLink(senders.Get(i),
                               routers.Get(0),
                               p.access_bps * ppp,
                               p.sender_delay_s,
                               p.access_limit_packets),
                  1 + 2 * i);
        const Ipv4Address receiver = AddSubnet(DropTailLink(routers.Get(1),
                                                            receivers.Get(i),
                                                            p.access_bps * ppp,
                                                            p.receiver_delay_s,
                                                            p.access_limit_packets),
                                               2 + 2 * i);
        Ptr<Socket> listener =
            Socket::CreateSocket(receivers.Get(i), TcpSocketFactory::GetTypeId());
        listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                    MakeCallback(&Accept));
        listener->Listen();
        listeners.push_back(listener);

        sources.push_back(std::make_unique<OnOffSource>(p, senders.Get(i), idle));
        Simulator::ScheduleWithContext(senders.Get(i)->GetId(),
                                       Seconds(0),
                                       &OnOffSource::Connect,
                                       sources.back().get(),
                                       InetSocketAddress(receiver, PORT));
        Simulator::ScheduleWithContext(senders.Get(i)->GetId(),
                                       Seconds(WARM_UP_S),
                                       &OnOffSource::StartBurst,
                                       sources.back().get());
    }

    uint64_t samples = 0;
    uint64_t backlog_total = 0;
    std::function<void()> sample = [&]() {
        ++samples;
        backlog_total += discipline ? discipline->GetNPackets() : queue->GetNPackets();
        Simulator::Schedule(Seconds(1 / p.sample_hz), sample);
    };
    Simulator::Schedule(Seconds(WARM_UP_S + 1 / p.sample_hz), sample);

    Simulator::Stop(Seconds(WARM_UP_S + p.seconds));
    const auto running = std::chrono::steady_clock::now();
    Simulator::Run();
    const auto finished = std::chrono::steady_clock::now();

    uint64_t acked = 0;
    uint64_t bursts = 0;
    double completion_total = 0;
    for (const auto& source : sources)
    {
        acked += source->BytesAcked();
        bursts += source->Bursts();
        completion_total += source->CompletionTotal();
    }
    uint64_t packets = queue->GetTotalReceivedPackets() - queue->GetNPackets();
    uint64_t drops = queue->GetTotalDroppedPackets();
    if (discipline)
    {
        drops = discipline->GetStats().nTotalDroppedPackets;
    }
    // Not from the queue's bytes, which ns-3.37 counts in 32 bits.
    const double utilisation = 8.0 * packets * packet_bytes / p.seconds / p.bottleneck_bps;
    const auto seconds = [](auto from, auto to) {
        return std::chrono::duration<double>(to - from).count();
    };
    std::printf("{\"setup_s\": %.3f, \"run_s\": %.3f, \"packets\": %llu, \"drops\": %llu, "
                "\"goodput_mbps\": %.3f, \"bursts\": %llu, \"completion_s\": %.4f, "
                "\"utilisation\": %.4f, \"backlog_packets\": %.1f}\n",
                seconds(started, running),
                seconds(running, finished),
                static_cast<unsigned long long>(packets),
                static_cast<unsigned long long>(drops),
                8e-6 * acked / p.seconds,
                static_cast<unsigned long long>(bursts),
                bursts ? completion_total / bursts : 0.0,
                utilisation,
                samples ? double(backlog_total) / samples : 0.0);
    std::fflush(stdout);
    return 0;
}
