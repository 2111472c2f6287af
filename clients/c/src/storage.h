/* Ledger and outbox of a device: one record, in two sectors.
 *
 * A record holds the number of released sketches and the message that waits. Both sectors are
 * written in turn before anything is sent: whenever the power fails, at most one of them is torn,
 * and after a message has left, no sector holds an older ledger. */
#ifndef SFUMATO_STORAGE_H
#define SFUMATO_STORAGE_H

#include "sfumato.h"

/* Write the device's state to both sectors, and read it back; after a failure, start again. */
enum sfumato_error save_record(struct sfumato_device *device);

/* Read the newest whole record; `is_double` is whether both sectors hold it. */
enum sfumato_error load_record(struct sfumato_device *device, bool *is_double);

#endif
