// Package cloudevents turns records in the Kafka binding of CloudEvents 1.0 into
// events.
//
//	d, err := cloudevents.New(cloudevents.Config{Fields: fields})
//
// # Words
//
// In binary mode the attributes are headers with names that begin with "ce_",
// the header "content-type" is that of the data, and the record's value is the
// data. In structured mode the record's value is a JSON object that holds
// attributes and data. Both become the same event:
//
//   - its id is made of source and id, see ID;
//   - its type is the attribute type;
//   - its aggregate, and whatever else rules are configured for, is found by
//     Config.Fields in the record as it is in binary mode, whichever it came in;
//   - its sequence is what Config.Fields finds, or else the extension sequence if
//     that is an integer of 64 bits;
//   - its time is what Config.Fields makes of the attribute time;
//   - its headers are those of the record in binary mode;
//   - its payload is the data: the value in binary mode; in structured mode what
//     data_base64 holds, or the exact text of data as it stands there, or the
//     content of that text if it is a string and datacontenttype says that the
//     data is no JSON.
//
// # Marks
//
// A record is a CloudEvent if its content type begins with
// application/cloudevents, if it has a header ce_specversion, or if its value is
// a JSON object with specversion, id, source and type, which is what producers
// write that set no header. A null value is data that is not there if the
// attributes are in headers; otherwise it is a tombstone like any other.
//
// # What is not obvious
//
// Some producers for other transports write "ce-" or "cloudEvents:" instead of
// "ce_", and Spring's header mapper writes some values as JSON strings (it says
// so in the header spring_json_header_types). Both are understood; the event
// keeps the headers as they came.
//
// Attributes may be numbers or booleans and are taken as they are written.
// Extensions that are objects or lists are none by the specification; they become
// headers with their JSON text, and no rule sees them.
//
// A Decoder is immutable, starts no goroutine and may be used from several.
package cloudevents
