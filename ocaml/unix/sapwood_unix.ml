module Io = struct
  type 'a t = 'a
  type ic = in_channel

  (* No channel of the standard library: those are flushed at exit, into whatever has their descriptor by then. *)
  type oc = { to_ : Unix.file_descr; pending : Buffer.t }
  type conn = unit
  type socket = in_channel

  let return value = value
  let ( >>= ) value next = next value
  let fail = raise
  let catch act handle = try act () with error -> handle error
  let sleep = Thread.delay
  let spawn act = ignore (Thread.create act ())
  let passes error = error = Sys.Break
  let only = Mutex.create ()

  let holding lock act =
    Mutex.lock lock;
    Fun.protect act ~finally:(fun () -> Mutex.unlock lock)

  let atomic act = holding only act

  let read_line channel =
    match input_line channel with
    | exception End_of_file -> None
    | line ->
        let size = String.length line in
        Some (if size > 0 && line.[size - 1] = '\r' then String.sub line 0 (size - 1) else line)

  let read channel most =
    let buffer = Bytes.create most in
    Bytes.sub_string buffer 0 (input channel buffer 0 most)

  let write channel = Buffer.add_string channel.pending

  let flush channel =
    let bytes = Buffer.to_bytes channel.pending in
    Buffer.clear channel.pending;
    let rec go from =
      if from < Bytes.length bytes then go (from + Unix.write channel.to_ bytes from (Bytes.length bytes - from))
    in
    go 0

  let connect host port =
    match Unix.getaddrinfo host (string_of_int port) [ AI_SOCKTYPE SOCK_STREAM ] with
    | [] -> failwith "there is no such host"
    | { ai_family; ai_addr; _ } :: _ -> (
        let socket = Unix.socket ~cloexec:true ai_family SOCK_STREAM 0 in
        match Unix.connect socket ai_addr with
        | () ->
            Unix.setsockopt socket TCP_NODELAY true;
            let channel = Unix.in_channel_of_descr socket in
            (channel, { to_ = socket; pending = Buffer.create 256 }, channel)
        | exception error ->
            Unix.close socket;
            raise error)

  let shut socket =
    try Unix.shutdown (Unix.descr_of_in_channel socket) SHUTDOWN_ALL with Unix.Unix_error _ -> ()

  let free = close_in_noerr

  let within socket seconds act =
    Unix.setsockopt_float (Unix.descr_of_in_channel socket) SO_RCVTIMEO seconds;
    act ()

  type monitor = { lock : Mutex.t; changed : Condition.t }

  let monitor () = { lock = Mutex.create (); changed = Condition.create () }
  let locked each act = holding each.lock act
  let wait each = Condition.wait each.changed each.lock
  let broadcast each = Condition.broadcast each.changed
end

let () = if not Sys.win32 then Sys.set_signal Sys.sigpipe Signal_ignore

module Session = Sapwood.Session.Make (Io)
module Rpc = Sapwood.Rpc.Make (Io) (Session)

module Channel = struct
  let make ?wait session = Sapwood_channels.make ?wait (Session.place session)
  let take ?ways ?timeout session given = Sapwood_channels.take ?ways ?timeout (Session.place session) given
end
