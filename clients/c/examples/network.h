/* Requests of a device to a server, or to a relay that forwards them: HTTP, without TLS. */
#ifndef SFUMATO_EXAMPLE_NETWORK_H
#define SFUMATO_EXAMPLE_NETWORK_H

#include "sfumato.h"

struct gateway {
    const char *host, *port;
    /* Of the last request: its status, or 0 without an answer, and its path. */
    int status;
    char path[SFUMATO_PATH];
};

/* Ask the server for the last sketch of this device, with a signed request, and confirm it. */
enum sfumato_error confirm_device(struct sfumato_device *device, struct gateway *gateway);

/* Send the waiting message unchanged, and settle it if the answer allows. */
enum sfumato_error send_waiting(struct sfumato_device *device, struct gateway *gateway);

#endif
