module Io = struct
  type 'a t = 'a

  type socket = {
    descriptor : Unix.file_descr;
    mutable tls : Ssl.socket option;
    mutable until : unit -> float;
    mutable freed : bool;
  }

  (* No channels of the standard library: those are flushed at exit, into whatever has their descriptor by then. *)
  type ic = { from : socket; buffer : Bytes.t; mutable place : int; mutable size : int }
  type oc = { to_ : socket; pending : Buffer.t }
  type conn = unit

  let return value = value
  let ( >>= ) value next = next value
  let fail = raise
  let catch act handle = try act () with error -> handle error
  let sleep = Thread.delay
  let passes error = error = Sys.Break
  let only = Mutex.create ()

  let holding lock act =
    Mutex.lock lock;
    Fun.protect act ~finally:(fun () -> Mutex.unlock lock)

  let atomic act = holding only act

  (* The task of each thread. *)
  let tasks : (int, string) Hashtbl.t = Hashtbl.create 16
  let self () = Thread.id (Thread.self ())
  let task () = atomic (fun () -> Option.value (Hashtbl.find_opt tasks (self ())) ~default:"")

  let with_task name act =
    let before = task () in
    let become name () = if name = "" then Hashtbl.remove tasks (self ()) else Hashtbl.replace tasks (self ()) name in
    atomic (become name);
    Fun.protect act ~finally:(fun () -> atomic (become before))

  (* A thread that has ended its work waits for more: OCaml 4.13 never gives back 4 KiB of each that was begun. *)
  let works : (unit -> unit) Queue.t = Queue.create ()
  let idle = ref 0
  let more = Condition.create ()

  let next () =
    incr idle;
    Fun.protect
      ~finally:(fun () -> decr idle)
      (fun () ->
        while Queue.is_empty works do
          Condition.wait more only
        done;
        Queue.pop works)

  let rec work () =
    let act = atomic next in
    (try act () with error -> !Sapwood.Errors.log ("sapwood: ! a thread failed: " ^ Printexc.to_string error));
    work ()

  let spawn act =
    atomic (fun () ->
        Queue.add act works;
        if Queue.length works > !idle then ignore (Thread.create work ()) else Condition.signal more)

  let wait_at_most socket seconds =
    Unix.setsockopt_float socket.descriptor SO_RCVTIMEO seconds;
    Unix.setsockopt_float socket.descriptor SO_SNDTIMEO seconds

  let glance = 0.25
  let after seconds = Fun.const (Unix.gettimeofday () +. seconds)

  (* For so long as all of it may take, with a glance at the clock now and then: the end may have come nearer. A signal
     that the program handles interrupts it, and is no fault of the line; OpenSSL says of both only that it wants to go
     on. *)
  let rec in_time socket act =
    let left = socket.until () -. Unix.gettimeofday () in
    if left <= 0. then failwith "no answer in time";
    wait_at_most socket (Float.max 0.001 (Float.min left glance));
    try act () with
    | Unix.Unix_error ((EINTR | EAGAIN | EWOULDBLOCK | EINPROGRESS | EALREADY), _, _)
    | Ssl.Connection_error (Error_want_read | Error_want_write)
    | Ssl.Read_error (Error_want_read | Error_want_write)
    | Ssl.Write_error (Error_want_read | Error_want_write)
    ->
      in_time socket act

  let receive socket buffer =
    in_time socket (fun () ->
        match socket.tls with
        | None -> Unix.read socket.descriptor buffer 0 (Bytes.length buffer)
        | Some tls -> (
            try Ssl.read tls buffer 0 (Bytes.length buffer) with Ssl.Read_error Ssl.Error_zero_return -> 0))

  let give socket bytes from size =
    in_time socket (fun () ->
        match socket.tls with
        | None -> Unix.write socket.descriptor bytes from size
        | Some tls -> Ssl.write tls bytes from size)

  (* Is anything there? *)
  let filled channel =
    if channel.place < channel.size then true
    else begin
      channel.size <- receive channel.from channel.buffer;
      channel.place <- 0;
      channel.size > 0
    end

  let read channel most =
    if not (filled channel) then ""
    else begin
      let size = min most (channel.size - channel.place) in
      let found = Bytes.sub_string channel.buffer channel.place size in
      channel.place <- channel.place + size;
      found
    end

  let read_line channel =
    let line = Buffer.create 80 in
    let rec go () =
      if not (filled channel) then if Buffer.length line = 0 then None else Some (Buffer.contents line)
      else begin
        let left = channel.size - channel.place in
        match Bytes.index_from_opt channel.buffer channel.place '\n' with
        | Some end_ when end_ < channel.size ->
            Buffer.add_subbytes line channel.buffer channel.place (end_ - channel.place);
            channel.place <- end_ + 1;
            Some (Buffer.contents line)
        | _ ->
            Buffer.add_subbytes line channel.buffer channel.place left;
            channel.place <- channel.size;
            go ()
      end
    in
    let without_return line =
      let size = String.length line in
      if size > 0 && line.[size - 1] = '\r' then String.sub line 0 (size - 1) else line
    in
    Option.map without_return (go ())

  let write channel = Buffer.add_string channel.pending

  let flush channel =
    let bytes = Buffer.to_bytes channel.pending in
    Buffer.clear channel.pending;
    let rec go from =
      if from < Bytes.length bytes then go (from + give channel.to_ bytes from (Bytes.length bytes - from))
    in
    go 0

  let handshake = 10.

  let over_tls socket context host =
    let tls = Ssl.embed_socket socket.descriptor context in
    Sapwood_tls.expect tls host;
    in_time socket (fun () -> Ssl.connect tls);
    socket.tls <- Some tls

  let open_or_close descriptor act =
    try act ()
    with error ->
      Unix.close descriptor;
      raise error

  (* A name may have several addresses, and the node listen at one: localhost is ::1, and 127.0.0.1. *)
  let rec reached = function
    | [] -> failwith "there is no such host"
    | { Unix.ai_family; ai_addr; _ } :: others -> (
        let line () =
          let descriptor = Unix.socket ~cloexec:true ai_family SOCK_STREAM 0 in
          let socket = { descriptor; tls = None; until = after handshake; freed = false } in
          open_or_close descriptor (fun () ->
              in_time socket (fun () -> Unix.connect descriptor ai_addr);
              socket)
        in
        try line () with (Unix.Unix_error _ | Failure _) when others <> [] -> reached others)

  let connect place host port =
    let socket = reached (Unix.getaddrinfo host (string_of_int port) [ AI_SOCKTYPE SOCK_STREAM ]) in
    open_or_close socket.descriptor (fun () ->
        Unix.setsockopt socket.descriptor TCP_NODELAY true;
        socket.until <- after handshake;
        Option.iter (fun context -> over_tls socket context host) (Sapwood_tls.context place));
    let buffer = Bytes.create 16384 in
    ({ from = socket; buffer; place = 0; size = 0 }, { to_ = socket; pending = Buffer.create 256 }, socket)

  let shut socket = try Unix.shutdown socket.descriptor SHUTDOWN_ALL with Unix.Unix_error _ -> ()

  (* Once: another thread's line may have the number by the second time. *)
  let free socket =
    let first () =
      let first = not socket.freed in
      socket.freed <- true;
      first
    in
    if atomic first then try Unix.close socket.descriptor with Unix.Unix_error _ -> ()

  let within socket until act =
    socket.until <- until;
    act ()

  type monitor = { lock : Mutex.t; changed : Condition.t }

  let monitor () = { lock = Mutex.create (); changed = Condition.create () }
  let locked each act = holding each.lock act
  let wait each = Condition.wait each.changed each.lock
  let broadcast each = Condition.broadcast each.changed
end

let () = if not Sys.win32 then Sys.set_signal Sys.sigpipe Signal_ignore

module Task = Sapwood.Task.Make (Io)
module Session = Sapwood.Session.Make (Io)
module Rpc = Sapwood.Rpc.Make (Io) (Session)

module Channel = struct
  let make ?wait session = Sapwood_channels.make ?wait (Session.place session)
  let take ?ways ?timeout session given = Sapwood_channels.take ?ways ?timeout (Session.place session) given
end
