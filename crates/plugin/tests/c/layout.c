/* Prints the sizes and places of narrows.h. */
#include <stdio.h>

#include "narrows.h"

#define PLACE(type, member) printf(#type "." #member " %zu\n", offsetof(type, member))

int main(void)
{
    printf("abi %d\n", NARROWS_ABI);
    printf("narrows_packet %zu\n", sizeof(narrows_packet));
    PLACE(narrows_packet, arrived);
    PLACE(narrows_packet, bytes);
    PLACE(narrows_packet, destination_port);
    PLACE(narrows_packet, ecn);
    PLACE(narrows_packet, dscp);
    printf("narrows_queue %zu\n", sizeof(narrows_queue));
    printf("narrows_ack %zu\n", sizeof(narrows_ack));
    PLACE(narrows_ack, delivery_rate);
    PLACE(narrows_ack, mss);
    PLACE(narrows_ack, window_limited);
    printf("narrows_sending %zu\n", sizeof(narrows_sending));
    printf("narrows_control %zu\n", sizeof(narrows_control));
    PLACE(narrows_control, on_restart);
    printf("random %u\n", (unsigned)({
               narrows_random random = narrows_random_from(42);
               narrows_random_u32(&random);
           }));
    return 0;
}
