module Io = struct
  include Cohttp_lwt_unix.IO

  let fail = Lwt.fail
  let catch = Lwt.catch
  let sleep = Lwt_unix.sleep
  let spawn = Lwt.async
  let passes = function Lwt.Canceled | Sys.Break -> true | _ -> false
  let atomic act = act ()

  let tasks : string Lwt.key = Lwt.new_key ()
  let task () = Option.value (Lwt.get tasks) ~default:""
  let with_task name act = Lwt.with_value tasks (Some name) act

  type socket = Lwt_unix.file_descr

  let handshake = 10.

  let channels socket =
    let channel mode = Lwt_io.of_fd ~close:(fun () -> Lwt.return_unit) ~mode socket in
    (channel Lwt_io.input, channel Lwt_io.output, socket)

  let over_tls context host socket =
    let open Lwt.Syntax in
    let line = Lwt_ssl.embed_uninitialized_socket socket context in
    Sapwood_tls.expect (Lwt_ssl.ssl_socket_of_uninitialized_socket line) host;
    let* line = Lwt_ssl.ssl_perform_handshake line in
    Lwt.return (Lwt_ssl.in_channel_of_descr line, Lwt_ssl.out_channel_of_descr line, socket)

  let open_or_close socket act =
    Lwt.catch act (fun error -> Lwt.bind (Lwt_unix.close socket) (fun () -> Lwt.fail error))

  (* A name may have several addresses, and the node listen at one: localhost is ::1, and 127.0.0.1. *)
  let rec reached = function
    | [] -> Lwt.fail_with "there is no such host"
    | { Unix.ai_family; ai_addr; _ } :: others ->
        let line () =
          let socket = Lwt_unix.socket ~cloexec:true ai_family SOCK_STREAM 0 in
          let dialled () = Lwt_unix.with_timeout handshake (fun () -> Lwt_unix.connect socket ai_addr) in
          open_or_close socket (fun () -> Lwt.map (fun () -> socket) (dialled ()))
        in
        Lwt.catch line (function
          | (Unix.Unix_error _ | Lwt_unix.Timeout) when others <> [] -> reached others
          | error -> Lwt.fail error)

  let connect place host port =
    let open Lwt.Syntax in
    let* found = Lwt_unix.getaddrinfo host (string_of_int port) [ AI_SOCKTYPE SOCK_STREAM ] in
    let* socket = reached found in
    open_or_close socket (fun () ->
        Lwt_unix.setsockopt socket TCP_NODELAY true;
        match Sapwood_tls.context place with
        | None -> Lwt.return (channels socket)
        | Some context -> Lwt_unix.with_timeout handshake (fun () -> over_tls context host socket))

  let shut socket = try Lwt_unix.shutdown socket SHUTDOWN_ALL with Unix.Unix_error _ -> ()
  let free socket = Lwt.async (fun () -> Lwt.catch (fun () -> Lwt_unix.close socket) (fun _ -> Lwt.return_unit))
  let glance = 0.25

  let within _ until act =
    let rec watch () =
      let left = until () -. Unix.gettimeofday () in
      if left <= 0. then Lwt.fail Lwt_unix.Timeout else Lwt.bind (sleep (Float.min left glance)) watch
    in
    Lwt.pick [ act (); watch () ]

  type monitor = { lock : Lwt_mutex.t; changed : unit Lwt_condition.t }

  let monitor () = { lock = Lwt_mutex.create (); changed = Lwt_condition.create () }
  let locked each act = Lwt_mutex.with_lock each.lock act
  let wait each = Lwt_condition.wait ~mutex:each.lock each.changed
  let broadcast each = Lwt_condition.broadcast each.changed ()
end

module Task = Sapwood.Task.Make (Io)
module Session = Sapwood.Session.Make (Io)
module Rpc = Sapwood.Rpc.Make (Io) (Session)

module Channel = struct
  (* In a thread of its own: a channel that many wait for keeps no other one of the pool. *)
  let detached act =
    let promise, resolver = Lwt.wait () in
    let ended = ref (Error Not_found) in
    let tell () = Lwt.wakeup_later_result resolver !ended in
    let told = Lwt_unix.make_notification ~once:true tell in
    let run () =
      (ended := match act () with found -> Ok found | exception error -> Error error);
      Lwt_unix.send_notification told
    in
    ignore (Thread.create run ());
    promise

  let make ?wait session = detached (fun () -> Sapwood_channels.make ?wait (Session.place session))

  let take ?ways ?timeout session given =
    detached (fun () -> Sapwood_channels.take ?ways ?timeout (Session.place session) given)

  let lwt descriptor =
    let line = Lwt_unix.of_unix_file_descr ~blocking:false ~set_flags:true descriptor in
    let open_ = ref 2 in
    let ended () =
      decr open_;
      if !open_ = 0 then Lwt_unix.close line else Lwt.return_unit
    in
    let finish () =
      (try Lwt_unix.shutdown line SHUTDOWN_SEND with Unix.Unix_error _ -> ());
      ended ()
    in
    let input = Lwt_io.of_fd ~close:ended ~mode:Lwt_io.input line in
    (input, Lwt_io.of_fd ~close:finish ~mode:Lwt_io.output line)
end
