/* Prints the sizes and places of narrows_link.h. */
#include <narrows_link.h>

#include <stdio.h>

#define SIZE(type) printf(#type " %d\n", (int)sizeof(type))
#define PLACE(type, member) printf(#type "." #member " %d\n", (int)offsetof(type, member))

int main(void)
{
    printf("abi %d\n", NARROWS_LINK_ABI);
    SIZE(narrows_link_packet);
    PLACE(narrows_link_packet, destination_port);
    PLACE(narrows_link_packet, protocol);
    SIZE(narrows_link_outcome);
    PLACE(narrows_link_outcome, fate);
    PLACE(narrows_link_outcome, packet);
    SIZE(narrows_link_counters);
    PLACE(narrows_link_counters, lost);
    SIZE(narrows_link_config);
    PLACE(narrows_link_config, queue_overhead);
    PLACE(narrows_link_config, turns_good);
    PLACE(narrows_link_config, rates);
    PLACE(narrows_link_config, release);
    return 0;
}
